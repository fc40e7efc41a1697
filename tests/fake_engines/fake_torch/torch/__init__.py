"""A torch that notes every read of a tensor's data, and every synchronisation, by the hooks."""

from __future__ import annotations

import sys
from types import SimpleNamespace

violations = []


def _guard(what):
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if caller.startswith("nvtx_hooks"):
        violations.append(f"{what} in {caller}")


class Tensor:
    """Rows that are on the GPU until somebody reads them."""

    def __init__(self, data, device="cuda:0", shape=None):
        self._data = list(data)
        self._shape = (len(self._data),) if shape is None else shape
        self.device = device
        self.is_cuda = device.startswith("cuda")

    @property
    def shape(self):
        return self._shape

    @property
    def is_cpu(self):
        return not self.is_cuda

    def tolist(self):
        _guard("tolist")
        return list(self._data)

    def item(self):
        _guard("item")
        return self._data[0]

    def cpu(self):
        _guard("cpu")
        return Tensor(self._data, "cpu")

    def to(self, device, non_blocking=False):
        _guard("to")
        return Tensor(self._data, device)

    def __int__(self):
        _guard("int")
        return int(self._data[0])

    __index__ = __int__

    def __float__(self):
        _guard("float")
        return float(self._data[0])

    def __bool__(self):
        _guard("bool")
        return bool(self._data[0])

    def __len__(self):
        _guard("len")
        return len(self._data)

    def __iter__(self):
        _guard("iter")
        return iter(self._data)

    def __getitem__(self, index):
        _guard("getitem")
        return self._data[index]

    def __eq__(self, other):
        _guard("eq")
        return self is other

    __hash__ = object.__hash__

    def __repr__(self):
        _guard("repr")
        return "Tensor"


class Event:
    def synchronize(self):
        _guard("Event.synchronize")

    def record(self):
        pass


def _synchronize():
    _guard("cuda.synchronize")


cuda = SimpleNamespace(synchronize=_synchronize, Event=Event)


def tensor(data, device="cuda:0"):
    return Tensor(data, device)


def row(length):
    """A tensor of shape (1, length)."""
    return Tensor([0] * length, shape=(1, length))
