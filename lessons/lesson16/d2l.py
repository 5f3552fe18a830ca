"""The package d2l, whose modules the course's are compared with."""

import sys
import types


class _Torchvision(types.ModuleType):
    """Stands in for torchvision; an error says so as soon as it is used."""

    def __getattr__(self, name: str):
        if name.startswith("__"):  # Python's own look at any module
            raise AttributeError(name)
        raise ImportError(
            f"{self.__name__}.{name} was asked for, but torchvision is missing or "
            "broken here; the course's d2l stand-in offers none of it. Install a "
            "torchvision that fits this torch to use d2l's image functions."
        )


def import_d2l() -> types.ModuleType:
    """`d2l.torch`, with a stand-in for torchvision where that cannot be imported.

    d2l imports torchvision at its top, for images; nothing in the course needs it. The
    stand-in is gone from sys.modules afterwards and raises ImportError when touched.
    """
    try:
        import torchvision  # noqa: F401
    except Exception:  # a torchvision built for another torch raises RuntimeError
        stand_in = _Torchvision("torchvision")
        stand_in.transforms = _Torchvision("torchvision.transforms")
        names = {"torchvision": stand_in, "torchvision.transforms": stand_in.transforms}
        sys.modules.update(names)
        try:
            from d2l import torch as d2l
        finally:
            for name in names:
                del sys.modules[name]
        return d2l
    from d2l import torch as d2l

    return d2l
