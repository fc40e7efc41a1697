"""Lets torchvision's Python part be imported beside a CPU torch; a start-up file imports this.

Its native library is a CUDA build and does not load there; two operators must then be declared.
"""

import sys


class _Torchvision:
    """Declares the operators before the first import of torchvision."""

    def find_spec(self, name, path=None, target=None):
        if name != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        self.library = torch.library.Library("torchvision", "DEF")
        _kept.append(self)
        for operator in ("nms", "qnms"):
            self.library.define(
                f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        return


_kept = []  # a library that is collected takes its operators away
sys.meta_path.insert(0, _Torchvision())
