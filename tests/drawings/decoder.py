"""Examples of each drawing in helpers/plots/mechanisms/decoder.py."""

from helpers.plots.mechanisms import decoder

DRAWINGS = {
    "layer": lambda: decoder.draw_decoder_layer(6, 5, 32),
    "layer_for_a_long_source": lambda: decoder.draw_decoder_layer(3, 7, 512),
    "shift": lambda: decoder.draw_shift(["le", "chat", "noir", "dort", "."]),
    "shift_of_one": lambda: decoder.draw_shift(["oui"]),
}
