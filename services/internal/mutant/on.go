//go:build mutants

package mutant

import "os"

// Variable names the control that is switched off in a build with mutants; empty for none.
const Variable = "EVALHOST_MUTANT"

var chosen = Control(os.Getenv(Variable))

// Off says whether a control is switched off.
func Off(c Control) bool { return c == chosen }
