"""Names of the kernels a SGLang server on an H200 runs, as Nsight Systems demangles them.

The names are those of sgl-kernel, FlashInfer, cuBLAS, NCCL and PyTorch; launch shapes are round
numbers of the usual size, no measurement.
"""

from __future__ import annotations

from typing import Final

from traceanalyzer.simulation.recording import KernelName

ADD_NORM: Final = KernelName(
    "void flashinfer::norm::FusedAddRMSNormKernel<(unsigned int)8, __nv_bfloat16>"
    "(T2 *, T2 *, T2 *, unsigned int, unsigned int, unsigned int, float, float)",
    "FusedAddRMSNormKernel",
    grid=6,
    block=1024,
)
QKV_GEMM: Final = KernelName(
    "nvjet_tst_64x8_64x16_2x4_h_bz_TNT", "nvjet_tst_64x8_64x16_2x4_h_bz_TNT"
)
ROPE: Final = KernelName(
    "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel<(bool)0, (unsigned int)128,"
    " (unsigned int)8, (unsigned int)16, __nv_bfloat16, long>(T5 *, T5 *, T5 *, T5 *)",
    "BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel",
    block=128,
)
STORE_CACHE: Final = KernelName(
    "void <unnamed>::store_kvcache<(long)2048, (int)4, (bool)0, long>"
    "(<unnamed>::StoreKVCacheParams)",
    "store_kvcache",
    grid=8,
)
VERIFY_ATTENTION: Final = KernelName(
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<"
    "(flashinfer::MaskMode)2, (unsigned int)16, (unsigned int)1, (unsigned int)4>, "
    "flashinfer::PagedParams>(T2)",
    "BatchPrefillWithPagedKVCacheKernel",
    registers=168,
    shared_bytes=49152,
)
DECODE_ATTENTION: Final = KernelName(
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, "
    "(unsigned int)2, (unsigned int)4, (unsigned int)8, flashinfer::Params>(T6)",
    "BatchDecodeWithPagedKVCacheKernel",
    registers=96,
    shared_bytes=32768,
)
OUT_GEMM: Final = KernelName(
    "nvjet_tst_128x8_64x12_4x1_v_bz_splitK_TNT", "nvjet_tst_128x8_64x12_4x1_v_bz_splitK_TNT"
)
ALL_REDUCE: Final = KernelName(
    "void sglang::cross_device_reduce_1stage<__nv_bfloat16, (int)8>(sglang::RankData *, "
    "sglang::RankSignals, sglang::Signal *, T1 *, int, int)",
    "cross_device_reduce_1stage",
    grid=36,
    block=512,
)
UP_GEMM: Final = KernelName(
    "nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "nvjet_tst_192x8_64x8_4x1_v_bz_TNT"
)
ACTIVATION: Final = KernelName(
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(T1 *, const T1 *, int)",
    "act_and_mul_kernel",
    grid=6,
    block=1024,
)
DOWN_GEMM: Final = KernelName(
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, "
    "int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarp"
    "SpecializedFP8>>>(T1::Params)",
    "device_kernel",
    registers=168,
    block=384,
    shared_bytes=227328,
)
NCCL_ALL_REDUCE: Final = KernelName(
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    grid=16,
    block=544,
    registers=96,
)
LM_HEAD_GEMM: Final = KernelName(
    "nvjet_tst_256x8_64x6_2x1_v_bz_TNN", "nvjet_tst_256x8_64x6_2x1_v_bz_TNN"
)
GATHER: Final = KernelName(
    "void at::native::vectorized_gather_kernel<(int)16, long>"
    "(char *, char *, long *, int, long, long, long, long, bool)",
    "vectorized_gather_kernel",
    grid=6,
)
SOFTMAX: Final = KernelName(
    "void at::native::<unnamed>::cunn_SoftMaxForward<(int)4, float, float, float, "
    "at::native::<unnamed>::SoftMaxForwardEpilogue>(T4 *, const T2 *, int)",
    "cunn_SoftMaxForward",
    grid=6,
    block=1024,
)
TOP_K: Final = KernelName(
    "void at::native::sbtopk::gatherTopK<float, unsigned int, (int)2, (bool)0>"
    "(at::cuda::detail::TensorInfo<const T1, T2>, T2, T2, bool, T2, T2)",
    "gatherTopK",
    grid=6,
    block=1024,
)
ARG_MAX: Final = KernelName(
    "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, "
    "at::native::ArgMaxOps<float>, unsigned int, long, (int)4, (int)4>>(T3)",
    "reduce_kernel",
    grid=6,
    block=512,
)
BUILD_TREE: Final = KernelName(
    "build_tree_efficient(long *, long *, long *, bool *, long *, long *, long *, long *, "
    "int, int, int, int)",
    "build_tree_efficient",
    grid=1,
    block=32,
)
VERIFY_TREE: Final = KernelName(
    "void VerifyTreeGreedy<int, long>(T1 *, T1 *, T1 *, T2 *, T2 *, T2 *, T2 *, T2 *, "
    "unsigned int, unsigned int, unsigned int)",
    "VerifyTreeGreedy",
    grid=1,
    block=1,
)
DRAFT_INDICES: Final = KernelName(
    "generate_draft_decode_kv_indices", "generate_draft_decode_kv_indices", grid=4, block=128
)
EXTEND_INDICES: Final = KernelName(
    "create_extend_after_decode_spec_info",
    "create_extend_after_decode_spec_info",
    grid=1,
    block=128,
)
CACHE_INDICES: Final = KernelName(
    "create_flashinfer_kv_indices_triton", "create_flashinfer_kv_indices_triton", grid=1, block=128
)
ASSIGN_CACHE: Final = KernelName(
    "assign_req_to_token_pool", "assign_req_to_token_pool", grid=1, block=128
)
INDEX: Final = KernelName(
    "void at::native::index_elementwise_kernel<(int)128, (int)4, "
    "void at::native::gpu_index_kernel<void at::native::index_kernel_impl<"
    "at::native::OpaqueType<(int)8>>>>(long, T3)",
    "index_elementwise_kernel",
    block=128,
)
FILL: Final = KernelName(
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<int>, "
    "std::array<char *, (unsigned long)1>>(int, T2, T3)",
    "vectorized_elementwise_kernel",
    block=128,
)
KV_OFFLOAD: Final = KernelName(
    "void transfer_kernel_impl<(int)64, (bool)1>(const void *, void *, const long *, long)",
    "transfer_kernel_impl",
    grid=2,
    block=1024,
)
TRITON_KERNELS: Final = frozenset({DRAFT_INDICES, EXTEND_INDICES, CACHE_INDICES, ASSIGN_CACHE})
"""Kernels that Triton launches through the driver API."""
