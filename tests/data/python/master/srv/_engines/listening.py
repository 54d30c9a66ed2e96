"""Answers the questions on the event bus."""
import salt.utils.event


def start(name, count=1):
    role = __opts__["__role"]
    with salt.utils.event.get_event(role, sock_dir=__opts__["sock_dir"], opts=__opts__, listen=True) as bus:
        answer(role, "ready", {"name": name, "count": count})
        for event in bus.iter_events(tag="question/", full=True, auto_reconnect=True):
            asked = event["data"].get("n")
            if asked == "stop":
                raise ValueError("nobody answers this")
            answer(
                role,
                event["tag"],
                {"asked": asked, "echo": __salt__["test.echo"]("e"), "runner": runner(role), "id": __opts__["id"], "os": "os" in __grains__},
            )


def runner(role):
    return __runners__["test.arg"]("r", k=1) if role == "master" else None


def answer(role, tag, data):
    if role == "minion":
        __salt__["event.send"]("answer/" + tag, data)
        return
    with salt.utils.event.get_master_event(__opts__, __opts__["sock_dir"], listen=False) as bus:
        bus.fire_event(data, "answer/" + tag)
