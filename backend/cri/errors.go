package cri

import (
	"errors"
	"io/fs"
)

// isNotExist is true when the host has no such file.
func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
