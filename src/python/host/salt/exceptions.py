"""Exceptions by the names that Salt's modules raise."""


class SaltException(Exception):
    """Base of nearly all others."""

    def __init__(self, message=""):
        self.message = self.strerror = message if isinstance(message, str) else str(message)
        super().__init__(self.message)

    def pack(self):
        return {"message": str(self), "args": self.args}


class CommandExecutionError(SaltException):
    """A function could not do what it was asked to; `info` says more, with `changes` if there are any."""

    def __init__(self, message="", info=None):
        self.error, self.info = _text(message), info
        self.strerror_without_changes = whole = self.error
        if info:
            start = self.error
            if start:
                start += " " if start[-1] in ".?!" else ". "
            start += "Additional info follows:\n\n"
            whole = start + _shown(info)
            rest = info
            if isinstance(info, dict):
                rest = info.copy()
                rest.pop("changes", None)
            if rest:
                self.strerror_without_changes = start + _shown(rest)
        super().__init__(whole)


class SaltRenderError(SaltException):
    """A template is wrong; with a line and its text, the message shows both."""

    def __init__(self, message, line_num=None, buf="", marker="    <======================", trace=None):
        self.error, self.line_num, self.buffer, self.context = message, line_num, buf, ""
        whole = _text(message)
        if trace:
            whole += "\n%s\n" % trace
        if line_num and buf:
            from salt.utils.stringutils import get_context

            self.context = get_context(buf, line_num, marker=marker)
            whole += "; line %s\n\n%s" % (line_num, self.context)
        super().__init__(whole)


class SaltInvocationError(SaltException, TypeError):
    """Wrong arguments."""


class InvalidKeyError(SaltException, ValueError):
    """A key that is none."""


class SaltClientTimeout(SaltException):
    """No answer to a job in time."""

    def __init__(self, message, jid=None, *args, **kwargs):
        super().__init__(message, *args, **kwargs)
        self.jid = jid


class FileLockError(SaltException):
    """A file could not be locked."""

    def __init__(self, message, time_start=None, *args, **kwargs):
        super().__init__(message, *args, **kwargs)
        if time_start is None:
            import time

            time_start = time.time()
        self.time_start = time_start


class GitLockError(SaltException):
    """A repository could not be locked."""

    def __init__(self, errno, message, *args, **kwargs):
        super().__init__(message, *args, **kwargs)
        self.errno = errno


class SaltSystemExit(SystemExit):
    """Ends a program with a message."""

    def __init__(self, code=0, msg=None):
        super().__init__(msg)


class MasterExit(SystemExit):
    """Ends a master."""


class LoggingRuntimeError(RuntimeError):
    """Logging could not be set up."""


# The others add nothing to their base.
_PLAIN = {
    "SaltException": """
        AuthenticationError AuthorizationError CommandNotFoundError EauthAuthenticationError FileserverConfigError
        GitRemoteError LoaderError MinionError MissingSmb NotImplemented NxosError PkgParseError PublishError SaltCacheError
        SaltClientError SaltCloudException SaltConfigurationError SaltDaemonNotRunning SaltDeserializationError
        SaltMasterError SaltMasterUnresolvableError SaltNoMinionsFound SaltReqTimeoutError SaltRunnerError
        SaltSyndicMasterError SaltValidationError SaltWheelError TemplateError TimedProcTimeoutError TimeoutError
        TokenAuthenticationError TokenExpiredError UnsupportedAlgorithm""",
    "CommandExecutionError": """
        ArgumentValueError CheckError CodePageError InvalidConfigError InvalidEntityError VMwareSaltError""",
    "SaltCloudException": """
        SaltCloudConfigError SaltCloudExecutionFailure SaltCloudExecutionTimeout SaltCloudNotFound SaltCloudPasswordError""",
    "NxosError": "NxosCliError NxosClientError NxosRequestNotSupported",
    "VMwareSaltError": """
        VMwareApiError VMwareConnectionError VMwareNotFoundError VMwareObjectExistsError VMwareObjectNotFoundError
        VMwareObjectRetrievalError VMwarePowerOnError VMwareRuntimeError VMwareSystemError VMwareVmCreationError
        VMwareVmRegisterError""",
    "VMwareApiError": "VMwareFileNotFoundError",
    "VMwareObjectRetrievalError": "VMwareMultipleObjectsError",
}
for _base, _names in _PLAIN.items():
    for _name in _names.split():
        globals()[_name] = type(_name, (globals()[_base],), {"__module__": __name__})


class SaltCloudSystemExit(SaltCloudException):  # noqa: F821
    """Ends a run of salt-cloud."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.message, self.exit_code = message, exit_code


def get_error_message(error):
    """What an exception was made with."""
    return next(iter(error.args), "")


def _text(message):
    return message.decode("utf-8") if isinstance(message, (bytes, bytearray)) else str(message)


def _shown(value):
    return "\n".join(_lines(value, 0, "")).rstrip()


def _lines(value, indent, lead):
    """Nested data for people: the layout of Salt's outputter `nested`."""
    margin = " " * indent
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            return
    if value is None or isinstance(value, (bool, int, float)):
        yield margin + lead + repr(value)
    elif isinstance(value, str):
        for at, line in enumerate(value.splitlines()):
            yield margin + (" " * len(lead) if at else lead) + line
    elif isinstance(value, (list, tuple)):
        for one in value:
            inner = isinstance(one, (list, tuple, dict))
            if inner:
                yield margin + "|_"
            yield from _lines(one, indent + 2 * inner, "" if isinstance(one, dict) else "- ")
    elif isinstance(value, dict):
        if indent:
            yield margin + "----------"
        for key in _ordered(value):
            yield "%s%s%s:" % (margin, lead, key)
            yield from _lines(value[key], indent + 4, "")


def _ordered(value):
    from collections import OrderedDict

    if isinstance(value, OrderedDict):
        return list(value)
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=str)
