# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The extension against float64. Exit codes: 0 passed, 1 failed, 77 skipped: no PyTorch or no GPU."""

import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"skipped: needs PyTorch: {error}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: needs a GPU: PyTorch finds none")
    sys.exit(77)

import capstone_rms_norm as capstone

EPS = 1e-6
ULP = {torch.float32: 2 ** -20, torch.float16: 2 ** -10, torch.bfloat16: 2 ** -7}


def reference(h, weight):
    h = h.double()
    y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS)
    return y if weight is None else y * weight.double()


def strided(rows, cols, dtype, pad):
    return torch.randn(rows, cols + pad, device="cuda").to(dtype)[:, :cols]


class RmsNorm(unittest.TestCase):
    def close(self, actual, expected):
        off = ((actual.double() - expected).abs() / (expected.abs() + 1e-2)).max().item()
        self.assertLess(off, ULP[actual.dtype])

    def test_every_dtype_stride_and_weight_agrees_with_float64(self):
        for dtype in ULP:
            for weight_dtype in {dtype, torch.float32, None} - ({None} if dtype != torch.float16 else set()):
                for rows, cols, pad in ((1, 4096, 0), (33, 4096, 8), (7, 769, 3), (2, 20000, 0)):
                    with self.subTest(dtype=dtype, weight=weight_dtype, shape=(rows, cols, pad)):
                        x, r = (strided(rows, cols, dtype, pad) for _ in range(2))
                        w = None if weight_dtype is None else torch.randn(cols, device="cuda").to(weight_dtype)
                        self.close(capstone.rms_norm(x, w, EPS), reference(x, w))
                        y, s = capstone.rms_norm_residual(x, r, w, EPS)
                        self.close(y, reference(x.double() + r.double(), w))
                        self.close(s, x.double() + r.double())

    def test_a_graph_holds_a_call_and_nothing_is_allocated(self):
        x, w = torch.randn(64, 4096, device="cuda"), torch.randn(4096, device="cuda")
        out = torch.empty_like(x)
        capstone.rms_norm(x, w, EPS, out)
        graph = torch.cuda.CUDAGraph()
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        with torch.cuda.graph(graph):
            capstone.rms_norm(x, w, EPS, out)
        self.assertEqual(torch.cuda.memory_stats()["allocation.all.allocated"], before)
        x.mul_(3).add_(1)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        self.close(out, reference(x, w))

    def test_no_rows_are_success(self):
        self.assertEqual(capstone.rms_norm(torch.empty(0, 8, device="cuda")).shape, (0, 8))

    def test_an_error_names_the_argument_its_value_and_what_was_expected(self):
        x = torch.randn(4, 64, device="cuda")
        cases = {
            r"x is Double; expected Float, Half or BFloat16": lambda: capstone.rms_norm(x.double()),
            r"x is on cpu; expected a CUDA device": lambda: capstone.rms_norm(x.cpu()),
            r"x has 3 dimensions; expected 2": lambda: capstone.rms_norm(x[None]),
            r"x has stride 2 in its last dimension; expected 1": lambda: capstone.rms_norm(x[:, ::2], out=x[:, :32]),
            r"weight has sizes \[63\]; expected \[64\]": lambda: capstone.rms_norm(x, x[0, :63]),
            r"weight is Half; expected Float, as x": lambda: capstone.rms_norm(x, x[0].half()),
            r"out has sizes \[3, 64\]; expected \[4, 64\], as x": lambda: capstone.rms_norm(x, out=x[:3]),
            r"residual is Half; expected Float, as x": lambda: capstone.rms_norm_residual(x, x.half()),
            r"residual_out is 0x[0-9a-f]+, expected apart from y":
                lambda: capstone.rms_norm_residual(x, x.clone(), out=x, residual_out=x),
        }
        for sentence, call in cases.items():
            with self.subTest(sentence):
                self.assertRaisesRegex(ValueError, sentence, call)


if __name__ == "__main__":
    capstone.load()
    unittest.main(verbosity=2)
