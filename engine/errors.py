"""What can go wrong, as one short tree. Caught at the edge, once.

EngineError
  ConfigError            the engine can't start as asked (exit code 2, never restarted)
    ModelFolderError     the model folder is missing, incomplete or of an unknown architecture
    PortInUseError
  CoreDiedError          the process that computes is gone; nothing can be answered before a restart
  RequestError           one request is refused, everything else goes on
    UnknownModelError
    PromptTooLongError
    OverloadedError
  AdapterError           one adapter is refused
    AdapterNotFoundError     no such name, or no adapter in that folder
    AdapterExistsError       the name is taken
    AdapterInvalidError      malformed, wrong shapes, not finite
    AdapterUnsupportedError  a PEFT feature that we do not serve, named
    AdapterTooLargeError     it can never fit
    AdapterBusyError         its requests or a copy are in the way
    PathRefusedError         outside every registered root

``code`` is stable and travels between the processes and over HTTP; ``status`` is the HTTP status.
"""

from __future__ import annotations

from typing import ClassVar


class EngineError(Exception):
    code: ClassVar[str] = "engine_error"
    status: ClassVar[int] = 500


class ConfigError(EngineError):
    code = "config_error"


class ModelFolderError(ConfigError):
    code = "model_folder_error"


class PortInUseError(ConfigError):
    code = "port_in_use"


class CoreDiedError(EngineError):
    code = "engine_dead"
    status = 503


class RequestError(EngineError):
    code = "invalid_request"
    status = 400

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class UnknownModelError(RequestError):
    code = "model_not_found"
    status = 404


class PromptTooLongError(RequestError):
    code = "context_length_exceeded"


class OverloadedError(RequestError):
    code = "overloaded"
    status = 503


class AdapterError(EngineError):
    code = "adapter_error"
    status = 400


class AdapterNotFoundError(AdapterError):
    code = "adapter_not_found"
    status = 404


class AdapterExistsError(AdapterError):
    code = "adapter_exists"


class AdapterInvalidError(AdapterError):
    code = "adapter_invalid"


class AdapterUnsupportedError(AdapterError):
    code = "adapter_unsupported"


class AdapterTooLargeError(AdapterError):
    code = "adapter_too_large"
    status = 413


class AdapterBusyError(AdapterError):
    code = "adapter_busy"
    status = 409


class PathRefusedError(AdapterError):
    code = "path_refused"
    status = 403


def _tree(root: type[EngineError]) -> dict[str, type[EngineError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


BY_CODE: dict[str, type[EngineError]] = _tree(EngineError)


def from_code(code: str, message: str) -> EngineError:
    """The error that another process reported as ``code``."""
    return BY_CODE.get(code, EngineError)(message)
