package hostcheck

import (
	"context"
	"debug/elf"
	"os"
)

var shim = requirement{
	id:    "shim",
	asked: "the shim, a static executable",
	why:   "it is the first process of every judged container: it places, inspects and measures the program",
	look: func(_ context.Context, m *Machine) finding {
		cure := "install aj-shim beside evalhost, or set EVALHOST_SHIM_PATH"
		info, err := os.Stat(m.Shim)
		if err != nil {
			return failed(err.Error(), cure)
		}
		if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return failed(m.Shim+" is not an executable file", cure)
		}
		binary, err := elf.Open(m.Shim)
		if err != nil {
			return failed(m.Shim+" is not an executable: "+err.Error(), cure)
		}
		defer binary.Close()
		if binary.Machine != elf.EM_X86_64 {
			return failed(m.Shim+" is built for another processor", cure)
		}
		for _, segment := range binary.Progs {
			if segment.Type == elf.PT_INTERP {
				return failed(m.Shim+" needs a dynamic loader, which an image may not have", "build it with CGO_ENABLED=0")
			}
		}
		return met(m.Shim)
	},
}
