#!/usr/bin/python3
"""Turns a file into C, so that the program carries it.

    tools/embed.py INPUT OUTPUT NAME

OUTPUT defines `const unsigned char NAME[]` and `const size_t NAME_len`.
"""

import sys
from pathlib import Path


def main(arguments):
    source, target, name = arguments
    data = Path(source).read_bytes()
    lines = [
        f"/* Made from {Path(source).name} by tools/embed.py. */",
        "#include <stddef.h>",
        "",
        f"extern const unsigned char {name}[];",
        f"extern const size_t {name}_len;",
        "",
        f"const unsigned char {name}[] = {{",
    ]
    for start in range(0, len(data), 20):
        lines.append("    " + ", ".join(str(byte) for byte in data[start : start + 20]) + ",")
    lines += ["    0};", "", f"const size_t {name}_len = {len(data)};", ""]
    Path(target).write_text("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
