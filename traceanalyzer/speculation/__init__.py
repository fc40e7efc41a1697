"""The theory of speculative decoding: when it pays, from acceptance, times and their doubt.

Floats in, floats and small frozen dataclasses out; standard library only. Times are
milliseconds, tokens are counts, and every formula names its source.
"""
