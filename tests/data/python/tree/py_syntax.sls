#!py
def run()
    return {}
