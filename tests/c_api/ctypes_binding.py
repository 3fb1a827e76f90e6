"""include/tandem/tandem.h as ctypes sees it."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

TextFunction = ctypes.CFUNCTYPE(c_int32, POINTER(ctypes.c_char), c_size_t, c_void_p)
LogitsFunction = ctypes.CFUNCTYPE(c_int32, c_size_t, POINTER(c_float), c_size_t, c_void_p)


class Message(ctypes.Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("fields", c_char_p)]


class EngineOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("verify", c_int32), ("log_level", c_int32),
                ("reserved", c_int32), ("log", c_void_p), ("log_user_data", c_void_p), ("backend_options", c_void_p),
                ("backend_option_count", c_size_t), ("run_on", c_char_p), ("decode_on", c_char_p)]


class EngineInfo(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("mode", c_int32), ("threads", c_int32), ("context", c_int64),
                ("vocab_size", c_int64), ("has_tokenizer", c_int32), ("reserved", c_int32),
                ("target", c_char_p), ("backend", c_char_p), ("hidden_size", c_int64)]


class GenerateOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float),
                ("min_p", c_float), ("repetition_penalty", c_float), ("repetition_window", c_int32),
                ("seed", c_uint64), ("max_new_tokens", c_int64), ("stop_strings", POINTER(c_char_p)),
                ("stop_string_count", c_size_t), ("template_variables", c_char_p), ("parse_special", c_int32),
                ("ignore_eos", c_int32), ("on_text", TextFunction), ("on_reasoning", TextFunction),
                ("user_data", c_void_p)]


class GenerateResult(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("text", POINTER(ctypes.c_char)), ("text_length", c_size_t),
                ("reasoning", POINTER(ctypes.c_char)), ("reasoning_length", c_size_t), ("stop_string", c_char_p),
                ("tokens", POINTER(c_int32)), ("token_count", c_size_t), ("prompt_tokens", c_int64),
                ("reused_tokens", c_int64), ("prompt_seconds", c_double), ("first_token_seconds", c_double),
                ("decode_seconds", c_double), ("finish", c_int32), ("reserved", c_int32)]


def sized(struct):
    return struct(size=ctypes.sizeof(struct))


def load(path):
    library = ctypes.CDLL(str(path))
    for name in ("version", "last_error", "status_name", "mode_name", "finish_reason_name"):
        getattr(library, f"tandem_{name}").restype = c_char_p
    library.tandem_engine_encode.argtypes = [c_void_p, c_char_p, c_size_t, c_uint32, POINTER(POINTER(c_int32)),
                                             POINTER(c_size_t)]
    library.tandem_engine_load_fd.argtypes = [c_int32, c_int64, c_int64, c_void_p, POINTER(c_void_p)]
    library.tandem_session_generate.argtypes = [c_void_p, POINTER(c_int32), c_size_t, c_void_p, c_void_p]
    library.tandem_session_generate_chat.argtypes = [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]
    library.tandem_session_score.argtypes = [c_void_p, POINTER(c_int32), c_size_t, LogitsFunction, c_void_p]
    return library


__all__ = ["EngineInfo", "EngineOptions", "GenerateOptions", "GenerateResult", "LogitsFunction", "Message",
           "TextFunction", "byref", "load", "sized"]
