// The journal of changes under the root: enough to compute, for any moment, what a power cut could leave on the disk.
//
// A record is one line "OP INODE NUMBER SIZE<tab>PATH<tab>PATH2\n" and SIZE bytes of data:
//   C  a name for a new, empty file            W  SIZE bytes written at NUMBER      T  length set to NUMBER
//   S  a file synced                           D  a folder synced                   M  a folder made
//   R  PATH renamed to PATH2                   N  another name for a file           U  a name (or an empty folder)
//   removed
#pragma once

namespace tandem::fault {

void open_journal();

}  // namespace tandem::fault
