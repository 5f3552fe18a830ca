"""Examples of each drawing in helpers/plots/mechanisms/phrases.py."""

from helpers.plots.mechanisms import phrases

DRAWINGS = {
    "two_orders": lambda: phrases.draw_two_orders(
        {
            "noun first": (["the", "black", "cat"], ["le", "chat", "noir"], (0, 2, 1)),
            "adjective first": (
                ["the", "little", "cat"],
                ["le", "petit", "chat"],
                (0, 1, 2),
            ),
        }
    ),
}
