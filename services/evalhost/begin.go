package main

import (
	"flag"
	"math"

	"github.com/evalhost/evalhost/services/internal/config"
)

// atLeast is the upper bound of operands where there is none.
const atLeast = math.MaxInt

// begun is a command on packages that can open them. Whoever has it closes its work.
type begun struct {
	operands []string
	settings config.Settings
	work     *workdir
}

// begin does what every command on packages begins with: it reads the arguments, of which there must be so many, and the settings
// of this machine, and makes the directory for packages. takes says in words what the operands are.
func begin(flags *flag.FlagSet, args []string, std stdio, takes string, least, most int) (b begun, err error) {
	if b.operands, err = arguments(flags, args); err != nil {
		return b, err
	}
	switch n := len(b.operands); {
	case most == atLeast && n < least:
		return b, badUse("%s takes %s", flags.Name(), takes)
	case n < least || n > most:
		return b, badUse("%s takes %s, not %d operands", flags.Name(), takes, n)
	}
	if b.settings, err = hereSettings(std); err != nil {
		return b, err
	}
	b.work, err = newWorkdir(b.settings)
	return b, err
}
