"""The running mean of a model's weights (lesson 13)."""

import torch
from torch import Tensor


class WeightAverage:
    """The running mean of a model's weights.

    The sums are taken in float64; whole numbers, which have no mean, come from the last
    state. The paper translates with the mean of its last checkpoints: Vaswani et al.
    2017, section 6.1.
    """

    def __init__(self):
        self.count, self.sums, self.dtypes = 0, {}, {}

    def add(self, weights: dict[str, Tensor]) -> None:
        """Let a state_dict enter. ValueError if it is that of an unlike model."""
        shapes = {name: x.shape for name, x in weights.items()}
        known = {name: x.shape for name, x in self.sums.items()}
        unlike = sorted(name for name, _ in shapes.items() ^ known.items())
        if self.count and unlike:
            raise ValueError(f"states of unlike models: they differ in {unlike[0]!r}")
        for name, x in weights.items():
            self.dtypes[name] = x.dtype
            if x.is_floating_point():
                total = self.sums.get(name, torch.zeros(())).to(x.device)
                self.sums[name] = x.double() + total
            else:
                self.sums[name] = x.clone()
        self.count += 1

    def weights(self) -> dict[str, Tensor]:
        """The mean, as a state_dict. ValueError if nothing has entered."""
        if not self.count:
            raise ValueError("no weights to average: no state has entered")
        mean = {}
        for name, dtype in self.dtypes.items():
            total = self.sums[name]
            whole = not dtype.is_floating_point
            mean[name] = total.clone() if whole else (total / self.count).to(dtype)
        return mean

    def state_dict(self) -> dict:
        """What `load_state_dict` needs to go on."""
        return {"count": self.count, "sums": {**self.sums}, "dtypes": {**self.dtypes}}

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken."""
        self.count = state["count"]
        self.sums, self.dtypes = {**state["sums"]}, {**state["dtypes"]}
