// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Short vectors: as raw words, the way they are loaded, held and stored, and as float32.
#pragma once

#include <capstone/detail/numeric.cuh>

namespace capstone::detail {

/// N float32 values.
template <int N>
struct floats {
  float v[N];
};

/// N elements of T as they lie in memory, in 32-bit words (one element of 16 bits: the low half).
/// Words and not elements, because a fragment of 16-bit elements takes a register for each.
template <class T, int N>
struct raw {
  static constexpr int words = N * int(sizeof(T)) < 4 ? 1 : N * int(sizeof(T)) / 4;
  unsigned w[words];
};

/// How a kernel uses a line of the cache. `streaming` marks it as the first to evict.
enum class cache_use : int { normal, streaming };

// One access of B bytes. On the host the types may alias anything, and an access through a pointer
// that is not B-aligned is undefined, so UBSan sees there what would be a misaligned address on a GPU.
#if defined(__CUDA_ARCH__)
using word2 = unsigned short;
using word4 = unsigned;
using word8 = uint2;
using word16 = uint4;
#else
typedef unsigned short __attribute__((may_alias)) word2;
typedef unsigned __attribute__((may_alias)) word4;
struct __attribute__((may_alias, aligned(8))) word8 { unsigned x, y; };
struct __attribute__((may_alias, aligned(16))) word16 { unsigned x, y, z, w; };
#endif
template <int Bytes> struct word_of;
template <> struct word_of<2> { using type = word2; };
template <> struct word_of<4> { using type = word4; };
template <> struct word_of<8> { using type = word8; };
template <> struct word_of<16> { using type = word16; };

template <class T, int N>
struct access {
  static constexpr int bytes = N * int(sizeof(T)) < 16 ? N * int(sizeof(T)) : 16;
  static constexpr int count = N * int(sizeof(T)) / bytes;  // 8 float32 are two accesses
  using word = typename word_of<bytes>::type;
};

CAPSTONE_FN void unpack(unsigned short from, unsigned* to) { to[0] = from; }
CAPSTONE_FN void unpack(unsigned from, unsigned* to) { to[0] = from; }
CAPSTONE_FN void unpack(word8 from, unsigned* to) { to[0] = from.x, to[1] = from.y; }
CAPSTONE_FN void unpack(word16 from, unsigned* to) {
  to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}
CAPSTONE_FN void pack(const unsigned* from, unsigned short& to) { to = static_cast<unsigned short>(from[0]); }
CAPSTONE_FN void pack(const unsigned* from, unsigned& to) { to = from[0]; }
CAPSTONE_FN void pack(const unsigned* from, word8& to) { to = {from[0], from[1]}; }
CAPSTONE_FN void pack(const unsigned* from, word16& to) { to = {from[0], from[1], from[2], from[3]}; }

enum class access_kind { normal, streaming, constant };

template <access_kind Kind, class Word>
CAPSTONE_FN auto read_word(const Word* p) {
#if defined(__CUDA_ARCH__)
  if constexpr (Kind == access_kind::streaming) return __ldcs(p);
  if constexpr (Kind == access_kind::constant) return __ldg(p);
#endif
  return *p;
}

template <access_kind Kind, int N, class T>
CAPSTONE_FN raw<T, N> read(const T* p) {
  using a = access<T, N>;
  raw<T, N> r;
  const auto* words = reinterpret_cast<const typename a::word*>(p);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < a::count; ++i) unpack(read_word<Kind>(words + i), r.w + i * (a::bytes / 4));
  return r;
}

/// Reads N elements at p, which is aligned to min(16, N * sizeof(T)) bytes.
template <int N, cache_use Use = cache_use::normal, class T>
CAPSTONE_FN raw<T, N> load(const T* p) {
  return read<Use == cache_use::streaming ? access_kind::streaming : access_kind::normal, N>(p);
}

/// The same for data that nothing writes while the kernel runs (ld.global.nc).
template <int N, class T>
CAPSTONE_FN raw<T, N> load_constant(const T* p) {
  return read<access_kind::constant, N>(p);
}

/// Writes N elements at p, aligned like those of `load`.
template <int N, cache_use Use = cache_use::normal, class T>
CAPSTONE_FN void store(T* p, const raw<T, N>& value) {
  using a = access<T, N>;
  auto* words = reinterpret_cast<typename a::word*>(p);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < a::count; ++i) {
    typename a::word word;
    pack(value.w + i * (a::bytes / 4), word);
#if defined(__CUDA_ARCH__)
    if constexpr (Use == cache_use::streaming) {
      __stcs(words + i, word);
      continue;
    }
#endif
    words[i] = word;
  }
}

/// Element i of a word of two 16-bit elements.
CAPSTONE_FN float half_of(const f16*, unsigned word, int i) {
  __half_raw h;
  h.x = static_cast<unsigned short>(word >> (16 * i));
  return __half2float(h);
}
CAPSTONE_FN float half_of(const bf16*, unsigned word, int i) {
  const unsigned bits = i == 0 ? word << 16 : word & 0xffff0000u;  // one instruction either way
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
CAPSTONE_FN unsigned pair_of(const f16*, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, 4);
  return bits;
}
CAPSTONE_FN unsigned pair_of(const bf16*, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);  // one cvt.rn.bf16x2.f32
  unsigned bits;
  memcpy(&bits, &pair, 4);
  return bits;
}

/// Widens every element; exact.
template <class T, int N>
CAPSTONE_FN floats<N> widen(const raw<T, N>& a) {
  floats<N> r;
  for (int i = 0; i < N; ++i) {
    if constexpr (sizeof(T) == 4)
      memcpy(&r.v[i], &a.w[i], 4);
    else
      r.v[i] = half_of(static_cast<const T*>(nullptr), a.w[i / 2], i % 2);
  }
  return r;
}

/// Rounds every element to nearest, ties to even.
template <class T, int N>
CAPSTONE_FN raw<T, N> narrow(const floats<N>& a) {
  raw<T, N> r;
  if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < N; ++i) memcpy(&r.w[i], &a.v[i], 4);
  } else if constexpr (N == 1) {
    r.w[0] = pair_of(static_cast<const T*>(nullptr), a.v[0], 0.0f);
  } else {
    for (int i = 0; i < N; i += 2)
      r.w[i / 2] = pair_of(static_cast<const T*>(nullptr), a.v[i], a.v[i + 1]);
  }
  return r;
}

template <class T, int N>
CAPSTONE_FN raw<T, N> filled(float value) {
  floats<N> f;
  for (int i = 0; i < N; ++i) f.v[i] = value;
  return narrow<T>(f);
}

}  // namespace capstone::detail
