"""Answers to lesson 08's exercise of the old kind: right ones and wrong ones."""

DUE = {
    "A": "large projection",
    "B": "sees padding",
    "C": "no positions",
    "D": "softmax twice",
    "E": "sees the future",
}
RIGHT = {"diagnosis": [DUE, {name: fault.upper() for name, fault in DUE.items()}]}
WRONG = {
    "diagnosis": [
        ({"A": "softmax twice"}, "far above ln V"),
        ({"D": "no positions"}, "its loss hardly falls"),
        ({"E": "sees padding"}, "move when later tokens go"),
        ({"C": "no position"}, "is none of"),
        ({"C": 3}, "is none of"),
    ]
}
