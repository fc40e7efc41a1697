"""Names of the kernels a mixture of experts with latent attention runs on a Blackwell card.

Spelled after those of FlashInfer, sgl-kernel (Marlin for four-bit experts among them), cuBLAS,
Triton, NCCL and PyTorch, not copied from a recording of such a server; template arguments and
launch shapes are of the usual kind, no measurement.
"""

from __future__ import annotations

from typing import Final

from traceanalyzer.simulation.recording import KernelName


def _cublas_gemm(tile: str, grid: int) -> KernelName:
    kernel = f"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}_tn_align8"
    return KernelName(
        f"void cutlass::Kernel2<{kernel}>(T1::Params)",
        "Kernel2",
        grid=grid,
        block=128,
        registers=168,
        shared_bytes=81_920,
    )


def _triton(name: str, grid: int) -> KernelName:
    return KernelName(name, name, grid=grid, block=128, registers=32)


RMS_NORM: Final = KernelName(
    "void flashinfer::norm::RMSNormKernel<(unsigned int)8, __nv_bfloat16>"
    "(T2 *, T2 *, T2 *, unsigned int, unsigned int, unsigned int, float, float)",
    "RMSNormKernel",
    grid=6,
    block=192,
)
QUERY_KEY_DOWN_GEMM: Final = _cublas_gemm("64x64_64x6", 34)
QUERY_UP_GEMM: Final = _cublas_gemm("64x64_32x6", 24)
ABSORB_GEMM: Final = _cublas_gemm("64x128_32x6", 64)
VALUE_UP_GEMM: Final = _cublas_gemm("128x64_32x6", 64)
OUT_GEMM: Final = _cublas_gemm("64x128_64x4", 112)
GATE_GEMM: Final = _cublas_gemm("64x64_64x5", 6)
SHARED_UP_GEMM: Final = _cublas_gemm("64x64_64x4", 8)
SHARED_DOWN_GEMM: Final = _cublas_gemm("128x64_64x4", 112)
DRAFT_QKV_GEMM: Final = _cublas_gemm("128x128_32x4", 36)
QUANTISE_MAX: Final = _triton("_per_tensor_quant_mla_fp8_stage1", 8)
QUANTISE_WRITE: Final = _triton("_per_tensor_quant_mla_fp8_stage2", 8)
ROTARY: Final = KernelName(
    "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<(bool)1, (unsigned int)64, "
    "(unsigned int)8, (unsigned int)8, __nv_bfloat16, long>(T5 *, T5 *, T5 *, T5 *, float *, T6 *)",
    "BatchQKApplyRotaryPosIdsCosSinCacheKernel",
    grid=1,
    block=128,
)
STORE_LATENT: Final = _triton("set_mla_kv_buffer_kernel", 6)
DECODE_ATTENTION: Final = KernelName(
    "void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<(bool)0, "
    "(unsigned int)2, (unsigned int)512, (unsigned int)64, (unsigned int)16, (unsigned int)64, "
    "__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, int>, "
    "flashinfer::MLAParams<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, int>>(T2)",
    "BatchMLAPagedAttentionKernel",
    grid=188,
    block=256,
    registers=255,
    shared_bytes=98_304,
)
PROMPT_ATTENTION: Final = KernelName(
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<"
    "(flashinfer::MaskMode)2, (unsigned int)16, (unsigned int)1, (unsigned int)4, "
    "(unsigned int)12, (unsigned int)8>, flashinfer::PagedParams>(T2)",
    "BatchPrefillWithPagedKVCacheKernel",
    grid=48,
    block=128,
    registers=255,
    shared_bytes=98_304,
)
ROUTE: Final = KernelName(
    "void kimi_k2_moe_fused_gate_kernel_small_token<(int)384, (int)8>"
    "(float *, float *, float *, int *, long, bool, double, bool)",
    "kimi_k2_moe_fused_gate_kernel_small_token",
    grid=6,
    block=384,
)
ALIGN_BLOCKS: Final = KernelName(
    "void moe_align_block_size_kernel<int>"
    "(const T1 *, int *, int *, int *, int, int, int, unsigned long, int *, bool, int)",
    "moe_align_block_size_kernel",
    grid=1,
    block=1024,
)
SORT_TOKENS: Final = KernelName(
    "void count_and_sort_expert_tokens_kernel<int>(const T1 *, int *, int *, unsigned long)",
    "count_and_sort_expert_tokens_kernel",
    grid=1,
    block=256,
)
EXPERT_GEMM: Final = KernelName(
    "void marlin_moe_wna16::Marlin<__nv_bfloat16, (long)1125899906843648, (int)256, (int)1, "
    "(int)8, (int)8, (bool)1, (int)4, (int)2, (bool)0>(const int4 *, const int4 *, int4 *, int4 *, "
    "const int4 *, const unsigned short *, const int4 *, const int *, const int *, const int *)",
    "Marlin",
    grid=188,
    block=256,
    registers=254,
    shared_bytes=101_376,
)
ACTIVATION: Final = KernelName(
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(T1 *, const T1 *, int)",
    "act_and_mul_kernel",
    grid=48,
    block=256,
)
SUM_EXPERTS: Final = _triton("_moe_sum_reduce_kernel", 28)
ADD: Final = KernelName(
    "void at::native::vectorized_elementwise_kernel<(int)4, "
    "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char *, (unsigned long)3>>"
    "(int, T2, T3)",
    "vectorized_elementwise_kernel",
    grid=21,
    block=128,
)
LOGITS_GEMM: Final = _cublas_gemm("128x256_32x3", 160)
ALL_GATHER: Final = KernelName(
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "ncclDevKernel_AllGather_RING_LL",
    grid=8,
    block=544,
    registers=96,
)
