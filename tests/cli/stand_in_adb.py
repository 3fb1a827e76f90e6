#!/usr/bin/env -S python3 -ES
"""A stand-in for adb: plays a device in a folder, records what it is asked, and fails on demand.

The environment says how:
  STAND_IN_FOLDER     the device: its files are in FOLDER/data, what was asked in FOLDER/calls, one list a line
  STAND_IN_DEVICES    the list of `adb devices`, "SERIAL state, SERIAL state"; default: one usable device
  STAND_IN_PROGRAM    runs in place of the device's own ./tandem or ./tandem-runner, which is for another processor
  STAND_IN_SOC        what the device says its chip is; STAND_IN_SDK: its API level, "" for a device without Android
  STAND_IN_FAIL       "push:TEXT": pushing fails with TEXT; "push-after:N": from the N-th push on; "damage": pushed files
                      are damaged; "crash": ./tandem dies; "hang": pushing never ends; "full": no space is free
"""
# Started a thousand times: it imports little, and starts quickly.
import os
import sys

FOLDER = os.environ["STAND_IN_FOLDER"]
FAIL = os.environ.get("STAND_IN_FAIL", "")
PROPERTIES = {
    "ro.build.version.sdk": os.environ.get("STAND_IN_SDK", "35"),
    "ro.product.cpu.abilist64": "arm64-v8a",
    "ro.soc.model": os.environ.get("STAND_IN_SOC", "SM8750"),
    "ro.product.model": "Stand-in",
}


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def on_device(text):
    """Paths of the device, in a shell's text or alone, as paths of this machine."""
    return text.replace("/data/local/tmp", FOLDER + "/data")


def devices():
    listed = os.environ.get("STAND_IN_DEVICES", "SERIAL1 device")
    return [item.strip().split(" ", 1) for item in listed.split(",") if item.strip()]


def push(source, target):
    if FAIL.startswith("push:"):
        fail(f"adb: error: failed to copy '{source}' to '{target}': {FAIL[5:]}")
    if FAIL.startswith("push-after:"):
        with open(FOLDER + "/calls") as calls:
            pushes = sum("'push'" in line for line in calls)
        if pushes >= int(FAIL[11:]):
            fail(f"adb: error: failed to copy '{source}' to '{target}': closed")
    hangs = FAIL == "hang" and "manifest" not in target
    with open(source, "rb") as file:
        data = b"half" if hangs else file.read()
    if FAIL == "damage" and "manifest" not in target:
        data = b"X" + data[1:]
    with open(on_device(target), "wb") as file:
        file.write(data)
    if hangs:
        import time
        open(FOLDER + "/hanging", "w").close()
        time.sleep(600)
    print(f"{source}: 1 file pushed, 0 skipped.")


def shell(command):
    # The device's tools: properties, and a program for its own processor.
    cases = "".join(f"{name}) echo '{value}';; " for name, value in PROPERTIES.items())
    crash = "kill -SEGV $$" if FAIL == "crash" else f"exec '{os.environ.get('STAND_IN_PROGRAM', 'false')}' \"$@\""
    tools = {
        "getprop": f"case $1 in {cases} esac" if PROPERTIES["ro.build.version.sdk"] else "exit 127",
        "uname": "echo aarch64",
        # What the device's linker would be told.
        "program": f"env | grep LIBRARY_PATH > '{FOLDER}/environment'\nunset LD_LIBRARY_PATH\n{crash}",
        "df": "exit 1" if FAIL != "full" else "echo 'Filesystem 1K-blocks Used Available Use% Mounted on'\n"
                                              "echo '/dev/x 100 99 1 99% /data'",
    }
    for name, body in tools.items():
        with open(f"{FOLDER}/tools/{name}", "w") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(f"{FOLDER}/tools/{name}", 0o755)
    command = on_device(command).replace("./tandem-runner ", "./tandem ").replace("./tandem ", f"{FOLDER}/tools/program ")
    environment = dict(os.environ, PATH=f"{FOLDER}/tools:{os.environ['PATH']}")
    sys.stdout.flush()
    # Its own exit status even if a signal ended the last command, as adb has it.
    os.execve("/bin/sh", ["sh", "-c", command + "\nexit $?"], environment)


def main():
    arguments = sys.argv[1:]
    for folder in ("data", "tools"):
        os.makedirs(f"{FOLDER}/{folder}", exist_ok=True)
    with open(FOLDER + "/calls", "a") as calls:
        calls.write(repr(arguments) + "\n")
    if arguments == ["devices"]:
        print("* daemon not running; starting now at tcp:5037\nList of devices attached")
        for serial, state in devices():
            print(f"{serial}\t{state}")
        return
    assert arguments[0] == "-s", arguments
    if arguments[1] not in [serial for serial, state in devices() if state == "device"]:
        fail(f"error: device '{arguments[1]}' not found")
    if arguments[2] == "push":
        push(*arguments[3:])
    elif arguments[2] == "shell":
        assert len(arguments) == 4, "adb joins several arguments by spaces"
        shell(arguments[3])
    else:
        fail(f"adb: unknown command {arguments[2]}")


main()
