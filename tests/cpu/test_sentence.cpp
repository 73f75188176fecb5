// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The sentences about speed: what they claim, and above all what they do not. All races are made up.

#include "claims/sentence.hpp"

#include <doctest/doctest.h>

#include "tests/cpu/prediction_example.hpp"

using namespace capstone::claims;

namespace {

using shape = std::pair<int, int>;

std::string named(shape s) { return "rows=" + std::to_string(s.first) + ",cols=" + std::to_string(s.second); }

arm_row arm_of(const char* name, double ms, ratio_band speedup, const char* version = "3.1") {
  return {name, version, ms, ms * 0.99, ms * 1.01, speedup};
}

/// A race against "rival": capstone takes 30 us, the floor 29.
comparison race(shape s, ratio_band speedup) {
  comparison c;
  c.kernel = "fake";
  c.dtype = "bf16";
  c.what = {named(s), ""};
  c.config = {{"lanes", "32"}};
  c.bytes = std::int64_t{4} * s.first * s.second;
  c.timer = "graph";
  c.sm_mhz = {1965, 1980, 1980};
  c.arms = {{own_name, "", 0.030, 0.0299, 0.0301, {}},
            arm_of(twin_name, 0.030, {1, 0.999, 1.001}),
            arm_of("rival", 0.030 * speedup.median, speedup),
            arm_of(floor_name, 0.029, {0.967, 0.966, 0.968})};
  return c;
}

constexpr ratio_band faster = {1.3, 1.29, 1.31}, equal = {1.0005, 0.9995, 1.0015}, slower = {0.9, 0.89, 0.91};

session_record session_of(std::vector<comparison> all, const char* name = "first", const char* device = "h200") {
  session_record record;
  record.run.session = name;
  record.device.id = device;
  record.comparisons = std::move(all);
  return record;
}

/// A verify record that all shapes of these sessions passed.
verify_record passed(const std::vector<session_record>& sessions) {
  verify_record record;
  record.device.id = "h200";
  record.kernel = "fake";
  record.dtype = "bf16";
  for (const session_record& session : sessions)
    for (const comparison& c : session.comparisons) record.problems.push_back({"llm", c.what, "exact", false, c.config, "", {}});
  return record;
}

std::string said(const std::vector<session_record>& sessions, const std::vector<prediction>& predictions = {}) {
  const auto all = speed_sentences(sessions, {passed(sessions)}, predictions);
  REQUIRE(all.size() == 1);
  CHECK(all[0].device == "h200");
  CHECK(all[0].baseline == "rival");
  return all[0].text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Neither faster nor equal nor slower is said of a shape.
bool claims_nothing(const std::string& text) {
  return text.starts_with("Supports: no claim to be faster than rival") && !has(text, "within the band on") && !has(text, "slower on");
}

}  // namespace

TEST_CASE("sentences: what is faster, with its band, and never 'faster' without more") {
  CHECK(said({session_of({race({4096, 4096}, faster)})}) ==
        "Supports: faster than rival (3.1) on 4096x4096, by 1.3 [1.29, 1.31] at 4096x4096; no crossover within these shapes. "
        "Does not support: 'faster'.");
}

TEST_CASE("sentences: shapes by size, the range from the least to the most") {
  const std::string text = said({session_of({race({16384, 4096}, {1.1, 1.09, 1.11}), race({64, 4096}, {2, 1.9, 2.1}), race({4096, 4096}, faster)})});
  CHECK(has(text, "on 64x4096, 4096x4096, 16384x4096, by 1.1 [1.09, 1.11] at 16384x4096 to 2 [1.9, 2.1] at 64x4096"));
}

TEST_CASE("sentences: within the band and slower are said as such") {
  const std::string even = said({session_of({race({4096, 4096}, equal)})});
  CHECK(even == "Supports: no claim to be faster than rival (3.1); within the band on 4096x4096; no crossover within these shapes. "
                "Does not support: 'faster'.");
  const std::string behind = said({session_of({race({4096, 4096}, slower)})});
  CHECK(has(behind, "Supports: no claim to be faster than rival (3.1); slower on 4096x4096, by 0.9 [0.89, 0.91] at 4096x4096"));
  CHECK_FALSE(has(behind, "within the band"));
}

TEST_CASE("sentences: the crossover lies between the largest shape not faster and the smallest that is") {
  const std::vector<comparison> ordered = {race({1, 4096}, slower), race({64, 4096}, equal), race({4096, 4096}, faster), race({16384, 4096}, faster)};
  CHECK(has(said({session_of(ordered)}), "; crossover between 64x4096 and 4096x4096."));
  const std::vector<comparison> mixed = {race({1, 4096}, faster), race({4096, 4096}, slower), race({16384, 4096}, faster)};
  CHECK(has(said({session_of(mixed)}), "; no single crossover by size."));
}

TEST_CASE("sentences: a void comparison claims nothing") {
  comparison c = race({4096, 4096}, faster);
  c.arms[1].speedup = ratio_band{1.02, 1.01, 1.03};
  REQUIRE(c.is_void());
  const std::string text = said({session_of({c})});
  CHECK(claims_nothing(text));
  CHECK(has(text, " No claim on 4096x4096: the comparison is void: the A/A twin differs."));
  CHECK(text.ends_with(" Does not support: 'faster'."));
}

TEST_CASE("sentences: a clock that fell by more than 3 % claims nothing") {
  comparison c = race({4096, 4096}, faster);
  c.sm_mhz = {1921, 1980, 1980};
  CHECK(why_no_claim(c, c.arms[2], {}, "h200") == "");
  c.sm_mhz = {1920, 1980, 1980};
  CHECK(has(why_no_claim(c, c.arms[2], {}, "h200"), "from 1920 to 1980 MHz (throttled)"));
  CHECK(claims_nothing(said({session_of({c})})));
  c.sm_mhz = {};  // not known
  CHECK(why_no_claim(c, c.arms[2], {}, "h200") == "");
}

TEST_CASE("sentences: a baseline without a version claims nothing, nor do the host's times") {
  comparison c = race({4096, 4096}, faster);
  c.arms[2].version = "";
  CHECK(why_no_claim(c, c.arms[2], {}, "h200") == "the baseline rival has no version");
  CHECK(has(said({session_of({c})}), "No claim on 4096x4096: the baseline rival has no version."));
  c = race({4096, 4096}, faster);
  c.timer = "host";
  CHECK(has(why_no_claim(c, c.arms[2], {}, "h200"), "the host's times claim nothing"));
  CHECK(claims_nothing(said({session_of({c})})));
}

TEST_CASE("sentences: only what was verified, with this config, on this device, passed") {
  const std::vector<session_record> sessions = {session_of({race({4096, 4096}, faster)})};
  const auto text_with = [&](const std::vector<verify_record>& records) { return speed_sentences(sessions, records, {}).at(0).text; };
  const verify_record right = passed(sessions);
  CHECK_FALSE(claims_nothing(text_with({right})));
  std::vector<verify_record> wrong(5, right);
  wrong[0].problems[0].config = {{"lanes", "64"}};
  wrong[1].problems[0].fault = "row 1 was not written";
  wrong[2].device.id = "b200";
  wrong[3].dtype = "f16";
  wrong[4].problems.clear();
  for (const verify_record& record : wrong) {
    CHECK(claims_nothing(text_with({record})));
    CHECK(has(text_with({record}), "No claim on 4096x4096: it is not verified with this config."));
  }
  CHECK(claims_nothing(text_with({})));
  CHECK(claims_nothing(text_with({right, wrong[1]})));  // one that failed outweighs one that passed
}

TEST_CASE("sentences: a baseline that is slower than in another session is a slowed one") {
  const comparison honest = race({4096, 4096}, {1.1, 1.09, 1.11});
  const auto slowed_by = [&](double factor) {
    comparison c = race({4096, 4096}, {1.1 * factor, 1.09 * factor, 1.11 * factor});
    return c;
  };
  const std::vector<session_record> before = {session_of({honest})};
  const comparison much = slowed_by(1.16), little = slowed_by(1.14);
  CHECK(why_no_claim(little, little.arms[2], before, "h200") == "");
  const std::string why = why_no_claim(much, much.arms[2], before, "h200");
  CHECK(has(why, "in session first (slowed baseline)"));
  CHECK(why_no_claim(honest, honest.arms[2], {session_of({much})}, "h200") == "");  // the quick one stands
  CHECK(why_no_claim(much, much.arms[2], {session_of({honest}, "first", "b200")}, "b200") != "");
  CHECK(why_no_claim(much, much.arms[2], {session_of({honest}, "first", "b200")}, "h200") == "");  // another GPU's

  comparison other_version = honest;
  other_version.arms[2].version = "3.0";
  CHECK(why_no_claim(much, much.arms[2], {session_of({other_version})}, "h200") == "");
  comparison nothing = honest;
  nothing.arms[1].speedup = ratio_band{1.02, 1.01, 1.03};
  CHECK(why_no_claim(much, much.arms[2], {session_of({nothing})}, "h200") == "");

  // The same GPU at a lower clock slows the floor as well.
  comparison throttled = much;
  throttled.arms[3].ms *= 1.16;
  CHECK(why_no_claim(throttled, throttled.arms[2], before, "h200") == "");

  // In the sentences the session with the quick baseline speaks.
  const std::string text = said({session_of({honest}), session_of({much}, "second")});
  CHECK(has(text, "by 1.1 [1.09, 1.11] at 4096x4096"));
}

TEST_CASE("sentences: the latest comparison of a shape speaks, unless nothing may be claimed from it") {
  const comparison first = race({4096, 4096}, {1.2, 1.19, 1.21}), second = race({4096, 4096}, {1.25, 1.24, 1.26});
  CHECK(has(said({session_of({first}), session_of({second}, "second")}), "by 1.25 [1.24, 1.26]"));
  comparison nothing = second;
  nothing.arms[1].speedup = ratio_band{1.02, 1.01, 1.03};
  const std::string text = said({session_of({first}), session_of({nothing}, "second")});
  CHECK(has(text, "by 1.2 [1.19, 1.21]"));
  CHECK_FALSE(has(text, "No claim on"));
  CHECK(has(said({session_of({nothing}), session_of({first}, "second")}), "by 1.2 [1.19, 1.21]"));
}

TEST_CASE("sentences: a fused and an unfused baseline of one kernel follow each other, one sentence each") {
  std::vector<comparison> all;
  for (const char* kernel : {"zeta", "alpha"})
    for (const char* dtype : {"f16", "bf16"}) {
      comparison c = race({4096, 4096}, faster);
      c.kernel = kernel;
      c.dtype = dtype;
      c.arms.push_back(arm_of("unfused", 0.09, {3, 2.9, 3.1}));
      c.arms.push_back(arm_of("a textbook", 0.06, {2, 1.9, 2.1}));
      all.push_back(c);
    }
  const auto sentences = speed_sentences({session_of(all)}, {}, {});
  REQUIRE(sentences.size() == 12);  // neither the twin nor the floor is a baseline
  for (std::size_t i = 0; i < sentences.size(); i += 3) {
    const auto &a = sentences[i], &b = sentences[i + 1], &unfused = sentences[i + 2];
    CHECK(a.kernel == unfused.kernel);
    CHECK(b.kernel == unfused.kernel);
    CHECK(a.dtype == unfused.dtype);
    CHECK(b.dtype == unfused.dtype);
    CHECK(a.baseline == "a textbook");
    CHECK(b.baseline == "rival");
    CHECK(unfused.baseline == "unfused");
    CHECK(a.fused);
    CHECK(b.fused);
    CHECK_FALSE(unfused.fused);
  }
}

TEST_CASE("sentences: the launch's share comes from the prediction of the smallest shape of this kernel") {
  prediction small = capstone::tests::made_up_prediction(), large = small;
  small.what.shape = "rows=1,cols=4096";
  small.expected_us = 2;
  small.terms = {{"dram", "", 0.1}, {"launch", "", 1.8}};
  small.launch_dominates_below_bytes = 7'400'000;
  large.terms = {{"dram", "", 31.2}, {"launch", "", 1.8}};
  prediction other = small;  // of another kernel, and smaller
  other.kernel = "other";
  other.expected_us = 1;
  const std::vector<session_record> sessions = {session_of({race({4096, 4096}, faster)})};
  const std::string text = said(sessions, {large, small, other});
  CHECK(has(text, "; launch is predicted to dominate below 7.4 MB moved, where it is up to 90 % of the time (1x4096)."));
  CHECK_FALSE(has(said(sessions, {other}), "launch"));
  other = small;
  other.device.id = "b200";
  CHECK_FALSE(has(said(sessions, {other}), "launch"));
}
