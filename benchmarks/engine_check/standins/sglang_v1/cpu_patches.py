"""Lets SGLang's own EAGLE code (0.4.9 to 0.5.9) run on a CPU; no file of SGLang is changed.

A start-up file imports it in every process: each patch is made right after its module's body ran.
"""

import importlib.abc
import inspect
import sys
import threading

_PATCHES = {}


def _after_import(*names):
    def keep(patch):
        for name in names:
            _PATCHES.setdefault(name, []).append(patch)
        return patch

    return keep


class _Loader(importlib.abc.Loader):
    def __init__(self, inner):
        self._inner = inner

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        self._inner.exec_module(module)
        for patch in _PATCHES[module.__name__]:
            patch(module)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Asks the other finders, so that it can share the path with other import hooks."""

    _asking = threading.local()

    def find_spec(self, name, path=None, target=None):
        if name not in _PATCHES or getattr(self._asking, "name", None) == name:
            return None
        self._asking.name = name
        try:
            others = (finder for finder in list(sys.meta_path) if finder is not self)
            found = (finder.find_spec(name, path, target) for finder in others)
            spec = next((spec for spec in found if spec is not None), None)
        finally:
            self._asking.name = None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _speculative(*names):
    return [f"sglang.srt.speculative.{name}" for name in names]


@_after_import(*_speculative("eagle_utils", "eagle_info", "spec_utils", "build_eagle_tree"))
def _operators(module):
    """Names that these modules import only where there is CUDA."""
    import sgl_kernel

    for name in (
        "fast_topk",
        "verify_tree_greedy",
        "tree_speculative_sampling_target_only",
        "top_k_renorm_prob",
        "top_p_renorm_prob",
    ):
        if not hasattr(module, name):
            setattr(module, name, getattr(sgl_kernel, name))
    if not hasattr(module, "sgl_build_tree_kernel_efficient"):
        module.sgl_build_tree_kernel_efficient = sgl_kernel.build_tree_kernel_efficient
    if hasattr(module, "TREE_SPEC_KERNEL_AVAILABLE"):
        module.TREE_SPEC_KERNEL_AVAILABLE = True
    if hasattr(module, "verify_tree_greedy_func"):
        module._is_cuda = True  # from 0.5.6 on it makes this function import the operator


class _CpuTorch:
    """`torch` for modules that write device="cuda" out: their tensors are made on the CPU."""

    _FACTORIES = ("arange", "empty", "full", "ones", "zeros", "tensor", "rand", "randint")

    def __getattr__(self, name):
        import torch

        value = getattr(torch, name)
        if name in self._FACTORIES:

            def call(*arguments, __factory=value, **options):
                if str(options.get("device", "")).startswith("cuda"):
                    options["device"] = "cpu"
                return __factory(*arguments, **options)

            value = call
        self.__dict__[name] = value
        return value


@_after_import(
    *_speculative("eagle_utils", "eagle_info", "spec_utils", "build_eagle_tree", "eagle_worker")
)
def _no_cuda_literals(module):
    if hasattr(module, "torch"):
        module.torch = _CpuTorch()


@_after_import("torch.cuda")
def _nothing_to_wait_for(module):
    module.synchronize = lambda device=None: None
    module.empty_cache = lambda: None


@_after_import("torch.cpu")
def _name_in_older_torch(module):
    import torch

    if not hasattr(torch._C._cpu, "_is_amx_tile_supported"):
        torch._C._cpu._is_amx_tile_supported = lambda: False


def _in_torch(module, launcher, replacement):
    """Take a kernel's place, with its arguments by name; interpreted it takes 0.5 s a layer."""
    signature = inspect.signature(getattr(module, launcher))

    def call(*arguments, **options):
        import cpu_attention

        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        return getattr(cpu_attention, replacement)(bound.arguments)

    setattr(module, launcher, call)


@_after_import("sglang.srt.layers.attention.triton_ops.extend_attention")
def _extend(module):
    _in_torch(module, "extend_attention_fwd", "extend")


@_after_import("sglang.srt.layers.attention.triton_ops.decode_attention")
def _decode(module):
    _in_torch(module, "decode_attention_fwd", "decode")


sys.meta_path.insert(0, _Finder())
