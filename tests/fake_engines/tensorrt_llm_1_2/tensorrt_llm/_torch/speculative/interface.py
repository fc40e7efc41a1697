from enum import IntEnum, auto


class SpeculativeDecodingMode(IntEnum):
    EAGLE3 = auto()
    EAGLE3_ONE_MODEL = auto()
    NONE = auto()

    def use_one_engine(self):
        return self == SpeculativeDecodingMode.EAGLE3_ONE_MODEL

    def needs_kv_cache_recompute(self):
        return self == SpeculativeDecodingMode.EAGLE3
