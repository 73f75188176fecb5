# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The peers that tools/race knows. Each is called as its own users call it, by the fastest path it offers."""

import importlib
import importlib.metadata
import pathlib
import re
import sys

EPS = 1e-6
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Absent(Exception):
    """A sentence: why a peer cannot run this."""


def version_of(distribution):
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown version"


class Peer:
    """`kernels`: a pattern that the name of a kernel of this peer's matches; a call none of whose kernels does
    has run another library's, and is not raced under this name."""
    name, distribution, kernels = "", "", ""
    in_place = False  # whether its call with residual writes over x and residual

    def version(self):
        return f"{self.distribution} {version_of(self.distribution)}"

    def prepare(self, torch, s):
        """A function that runs one call on the set `s` (a Set) and returns (y, residual_out or None). Whatever
        it allocates is returned, so that the race can keep it while the set is in use: an output that is freed
        at once would be written to the same place, which lies in L2, by every call."""
        raise NotImplementedError


class Capstone(Peer):
    name, kernels = "capstone", r"capstone"

    def version(self):
        return "this repository"

    def load(self):
        sys.path.insert(0, str(ROOT / "examples/pytorch/rms_norm"))
        import capstone_rms_norm
        capstone_rms_norm.load(str(ROOT / "build/race/extension"))

    def prepare(self, torch, s):
        self.load()
        ops = torch.ops.capstone
        if s.residual is None:
            plain = ops.rms_norm.default
            return lambda: (plain(s.x, s.weight, EPS, s.y), (s.y, None))[1]
        added = ops.rms_norm_residual.default
        return lambda: (added(s.x, s.residual, s.weight, EPS, s.y, s.residual_out), (s.y, s.residual_out))[1]


def formula(torch, cols):
    norm = torch.nn.functional.rms_norm

    def plain(x, weight):
        return norm(x, (cols,), weight, EPS)

    def added(x, residual, weight):
        total = x + residual
        return norm(total, (cols,), weight, EPS), total
    return plain, added


class Eager(Peer):
    name, distribution, kernels = "PyTorch eager", "torch", r"at::native|layer_norm|elementwise"

    def prepare(self, torch, s):
        plain, added = formula(torch, s.x.shape[1])
        if s.residual is None:
            return lambda: (plain(s.x, s.weight), None)
        return lambda: added(s.x, s.residual, s.weight)


class Compiled(Peer):
    name, distribution, kernels, mode = "torch.compile", "torch", r"^triton_", None
    compiled = None  # of the problem now

    def new_problem(self, torch):
        self.compiled = None

    def prepare(self, torch, s):
        if self.compiled is None:
            self.compiled = [torch.compile(f, mode=self.mode, dynamic=False, fullgraph=True)
                             for f in formula(torch, s.x.shape[1])]
        plain, added = self.compiled
        if s.residual is None:
            return lambda: (plain(s.x, s.weight), None)
        return lambda: added(s.x, s.residual, s.weight)


class CompiledMost(Compiled):
    name, mode = "torch.compile max-autotune", "max-autotune-no-cudagraphs"


class Liger(Peer):
    name, distribution = "Liger", "liger-kernel"
    kernels = r"rms_norm_forward"
    plain, added = "liger_kernel.ops.rms_norm", "liger_kernel.ops.fused_add_rms_norm"

    def prepare(self, torch, s):
        if s.residual is None:
            forward = importlib.import_module(self.plain).rms_norm_forward
            return lambda: (forward(s.x, s.weight, EPS, 0.0, "llama", None)[0], None)
        if self.added is None:
            raise Absent(f"this backend of Liger {version_of('liger-kernel')} has no RMSNorm with residual")
        forward = self.forward_added(importlib.import_module(self.added))
        return lambda: forward(s.x, s.residual, s.weight, EPS, 0.0, "llama")[:2]

    def forward_added(self, module):
        return module.fused_add_rms_norm_forward


class LigerCuteDsl(Liger):
    name, kernels = "Liger CuTe-DSL", r"(?i)cutlass|cute|rms"
    plain, added = "liger_kernel.ops.cutedsl.ops.rms_norm", None


class LigerCuTile(Liger):
    name, kernels = "Liger cuTile", r"(?i)rms"
    plain, added = "liger_kernel.ops.cutile.ops.rms_norm", "liger_kernel.ops.cutile.ops.fused_add_rms_norm"

    def forward_added(self, module):
        return module._fused_add_rms_norm_forward_ct


class Quack(Peer):
    name, distribution, kernels = "quack", "quack-kernels", r"(?i)quack|cutlass"

    def prepare(self, torch, s):
        importlib.import_module("quack.rmsnorm")
        forward = torch.ops.quack._rmsnorm_fwd.default
        return lambda: (forward(s.x, s.weight, s.y, None, None, None, s.residual, s.residual_out, EPS),
                        (s.y, s.residual_out))[1]


class FlashInfer(Peer):
    name, distribution, kernels = "FlashInfer", "flashinfer-python", r"(?i)flashinfer|cutlass"
    in_place = True

    def prepare(self, torch, s):
        if s.x.dtype == torch.float32:
            raise Absent("FlashInfer's norms take f16 and bf16")
        norm = importlib.import_module("flashinfer.norm")
        if s.residual is None:
            return lambda: (norm.rmsnorm(s.x, s.weight, EPS, out=s.y), (s.y, None))[1]
        # In place is all it offers.
        return lambda: (norm.fused_add_rmsnorm(s.x, s.residual, s.weight, EPS), (s.x, s.residual))[1]


class TransformerEngine(Peer):
    name, distribution, kernels = "TransformerEngine", "transformer-engine", r"transformer_engine"

    def prepare(self, torch, s):
        if s.residual is not None:
            raise Absent("TransformerEngine has no forward RMSNorm with residual")
        importlib.import_module("transformer_engine.pytorch")
        tex = importlib.import_module("transformer_engine_torch")
        kind = {torch.float32: tex.DType.kFloat32, torch.float16: tex.DType.kFloat16,
                torch.bfloat16: tex.DType.kBFloat16}[s.x.dtype]
        return lambda: (tex.rmsnorm_fwd(s.x, s.weight, EPS, s.y, None, kind, 0, False), (s.y, None))[1]


class Apex(Peer):
    name, distribution, kernels = "Apex", "apex", r"cuApply"

    def prepare(self, torch, s):
        if s.residual is not None:
            raise Absent("Apex has no RMSNorm with residual")
        module = importlib.import_module("fused_layer_norm_cuda")
        shape = (s.x.shape[1],)
        return lambda: (module.rms_forward_affine(s.x, shape, s.weight, EPS)[0], None)


class Cudnn(Peer):
    name, distribution, kernels = "cuDNN", "nvidia-cudnn-frontend", r"(?i)cudnn|norm"
    built = None  # (handle, graph, its tensors) of the problem now

    def version(self):
        try:
            import cudnn
            return f"cuDNN {cudnn.backend_version()}, frontend {version_of(self.distribution)}"
        except ImportError:
            return super().version()

    def new_problem(self, torch):
        self.built = None

    def prepare(self, torch, s):
        if s.residual is not None:
            raise Absent("cuDNN's RMSNorm graph takes no residual")
        cudnn = importlib.import_module("cudnn")
        if self.built is None:
            kind = {torch.float32: cudnn.data_type.FLOAT, torch.float16: cudnn.data_type.HALF,
                    torch.bfloat16: cudnn.data_type.BFLOAT16}[s.x.dtype]
            rows, cols = s.x.shape
            handle = cudnn.create_handle()
            g = cudnn.pygraph(io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT,
                              compute_data_type=cudnn.data_type.FLOAT, handle=handle)
            x = g.tensor(name="x", dim=[rows, cols, 1, 1], stride=[cols, 1, cols, cols], data_type=kind)
            scale = g.tensor(name="scale", dim=[1, cols, 1, 1], stride=[cols, 1, cols, cols], data_type=kind)
            eps = g.tensor(name="epsilon", dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], is_pass_by_value=True,
                           data_type=cudnn.data_type.FLOAT)
            y, _ = g.rmsnorm(name="rms", norm_forward_phase=cudnn.norm_forward_phase.INFERENCE, input=x,
                             scale=scale, epsilon=eps)
            y.set_output(True).set_data_type(kind)
            g.validate()
            g.build_operation_graph()
            g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
            g.check_support()
            g.build_plans()
            workspace = torch.empty(max(1, g.get_workspace_size()), device="cuda", dtype=torch.uint8)
            self.built = cudnn, handle, g, (x, scale, eps, y), torch.full((1, 1, 1, 1), EPS), workspace
        cudnn, handle, g, (x, scale, eps, y), eps_value, workspace = self.built
        packed = {x: s.x, scale: s.weight, eps: eps_value, y: s.y}

        def call():
            cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
            g.execute(packed, workspace, handle=handle)
            return s.y, None
        return call


class Vllm(Peer):
    name, distribution, kernels = "vLLM", "vllm", r"vllm"
    in_place = True

    def prepare(self, torch, s):
        importlib.import_module("vllm._C")
        ops = torch.ops._C
        if s.residual is None:
            return lambda: (ops.rms_norm(s.y, s.x, s.weight, EPS), (s.y, None))[1]
        return lambda: (ops.fused_add_rms_norm(s.x, s.residual, s.weight, EPS), (s.x, s.residual))[1]


PEERS = (Eager, Compiled, CompiledMost, Liger, LigerCuteDsl, LigerCuTile, Quack, FlashInfer, TransformerEngine,
         Apex, Cudnn, Vllm)


# ---- what a probe concludes ----------------------------------------------------------------------

def why_foreign(name, pattern, kernels):
    """"" if a kernel of this peer's ran, else the sentence."""
    if not kernels:
        return f"{name} launched no kernel"
    if any(re.search(pattern, kernel) for kernel in kernels):
        return ""
    return f"{name} ran kernels of another library: {', '.join(sorted(set(kernels)))}; expected /{pattern}/"


def why_wrong(name, ratios):
    """"" unless an output is off by more than is allowed; `ratios`: {output: the worst error over its bound}."""
    for output, worst in ratios.items():
        if not worst <= 1:
            return f"{name}: {output} is off by {worst:.3g} times what five roundings allow, against float64"
    return ""


def reason_of(error):
    words = str(error).strip().splitlines()
    if isinstance(error, Absent):
        return words[0]
    return f"{type(error).__name__}: {words[0] if words else 'no reason given'}"[:300]


def judge(peer, ratios_of, kernels_of):
    """What a probe says: {ran, version, kernels, reason}. `ratios_of()` runs one call and compares it with
    float64, `kernels_of()` names the kernels of one call."""
    found = {"ran": False, "version": "", "kernels": [], "reason": ""}
    try:
        found["version"] = peer.version()
        found["reason"] = why_wrong(peer.name, ratios_of())
        if not found["reason"]:
            found["kernels"] = kernels_of()
            found["reason"] = why_foreign(peer.name, peer.kernels, found["kernels"])
    except Exception as error:  # whatever a foreign library raises is its reason
        found["reason"] = reason_of(error)
    found["ran"] = not found["reason"]
    return found


def line_up(probed, make):
    """(arms, absent) of one race from {name: what its probe found}; `make(name, found)` checks once more, in
    this process, and gives the arm."""
    arms, absent = [], []
    for name, found in probed.items():
        reason = found["reason"]
        if found["ran"]:
            try:
                arms.append(make(name, found))
            except Exception as error:
                reason = "in the race: " + reason_of(error)
        if reason:
            absent.append({"name": name, "version": found["version"], "reason": reason})
    return arms, absent
