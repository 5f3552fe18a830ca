"""Examples of each drawing in lessons/lesson07/draw.py."""

from lessons.lesson07 import draw

DRAWINGS = {
    "layer": lambda: draw.draw_decoder_layer(6, 5, 32),
    "layer_for_a_long_source": lambda: draw.draw_decoder_layer(3, 7, 512),
    "shift": lambda: draw.draw_shift(["le", "chat", "noir", "dort", "."]),
    "shift_of_one": lambda: draw.draw_shift(["oui"]),
}
