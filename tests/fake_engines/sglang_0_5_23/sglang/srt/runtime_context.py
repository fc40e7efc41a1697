from types import SimpleNamespace

_PARALLEL = SimpleNamespace()


def publish(server_args, tp_rank):
    _PARALLEL.__dict__.update(
        tp_rank=tp_rank,
        tp_size=server_args.tp_size,
        attn_tp_rank=tp_rank,
        attn_tp_size=server_args.tp_size,
        attn_dp_rank=0,
        attn_dp_size=1,
        pp_rank=0,
        pp_size=1,
        dp_rank=None,
        dp_size=1,
    )


def get_parallel():
    return _PARALLEL
