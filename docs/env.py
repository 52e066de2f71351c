"""An environment of env=program: it asks for a program that says "return", and once more where there was none.

A line of JSON comes in, a line of JSON goes out. Conversations come in between each other; "id" tells which one it is,
and "question", said again, which line is answered.
"""
import json
import sys

talks = {}  # of each conversation, its problem


def turn(problem, said):
    good = "return" in said["text"] or "print" in said["text"]
    if good or said["last"]:
        return {"reward": (1 if good else 0) / (1 + said["turn"]), "over": True}
    words = problem["prompt"] + "\nAnswer with Python code in a ```python block."
    return {"messages": [{"role": "user", "content": words}], "reward": 0, "over": False}


for line in sys.stdin:
    asked = json.loads(line)
    answer = {}
    if "open" in asked:
        talks[asked["id"]] = asked["open"]
    elif "turn" in asked:
        answer = turn(talks[asked["id"]], asked["turn"])
    else:  # "close"
        del talks[asked["id"]]
    answer["question"] = asked["question"]
    print(json.dumps(answer), flush=True)
