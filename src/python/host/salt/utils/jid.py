"""Numbers of jobs: the time they were made at."""
import datetime


def gen_jid(opts=None):
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")


def is_jid(jid):
    """Whether it is 20 digits, or those and `_` with more."""
    return isinstance(jid, str) and jid[:20].isdecimal() and (len(jid) == 20 or len(jid) > 21 and jid[20] == "_")


def jid_to_time(jid):
    """For people; an empty text if it is no number of a job."""
    jid = str(jid)
    if not is_jid(jid):
        return ""
    return datetime.datetime.strptime(jid[:20], "%Y%m%d%H%M%S%f").strftime("%Y, %b %d %H:%M:%S.%f")
