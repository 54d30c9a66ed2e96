#!py
def run():
    return ["a", "list"]
