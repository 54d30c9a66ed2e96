"""Points in time."""
import datetime

_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%b %d %Y", "%d %b %Y", "%Y%m%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M:%SZ")


def date_cast(date):
    """A point in time from seconds since 1970 or a text; now without one."""
    if date is None:
        return datetime.datetime.now()
    if isinstance(date, datetime.datetime):
        return date
    if isinstance(date, str) and not (date.isdigit() and len(date) != 8):
        return _read(date)
    try:
        return datetime.datetime.fromtimestamp(int(date) if isinstance(date, str) else date)
    except (TypeError, ValueError, OverflowError, OSError):
        raise ValueError("Unable to parse {}".format(date)) from None


def _read(text):
    for form in (day + time for day in _DAYS for time in _TIMES):
        try:
            return datetime.datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError("Unable to parse {}".format(text))


def strftime(date=None, format="%Y-%m-%d"):
    return date_cast(date).strftime(format)


def total_seconds(td):
    return td.total_seconds()
