package e2b

import "io/fs"

func ownerOf(fs.FileInfo) (uid, gid uint32) { return nobody, nobody }
