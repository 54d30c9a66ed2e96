"""Keeps the minutes of what happens in the house."""


def event_return(events):
    with open(__opts__["minutes.path"], "a") as book:
        for event in events:
            if event["tag"].startswith("house/"):
                book.write("%s %s\n" % (event["tag"], event["data"]["n"]))
                if event["data"]["n"] == "bad":
                    raise ValueError("this is not written down")
