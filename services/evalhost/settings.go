package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalhost/evalhost/services/internal/config"
)

const shimName = "aj-shim"

// helpEnvironment is what `evalhost help` says about the environment.
func helpEnvironment() string {
	var text strings.Builder
	text.WriteString("\nEnvironment (an unknown EVALHOST_ or AJ_Sandbox__ key is refused; an empty value counts as unset):\n")
	_ = config.WriteHelp(&text, config.Command) // a Builder takes everything
	return text.String()
}

// readSettings reads the environment of this command; executable is the path of this program. What is accepted and
// probably not meant comes back as warnings.
func readSettings(env []string, executable string) (config.Settings, []config.Warning, error) {
	var facts config.Facts
	if beside := filepath.Join(filepath.Dir(executable), shimName); isFile(beside) {
		facts.ShimBeside = beside
	}
	s, warnings, err := config.Read(config.Command, env, facts)
	var refusals config.Refusals
	if errors.As(err, &refusals) {
		said := make([]string, len(refusals))
		for i, refusal := range refusals {
			said[i] = refusal.Error()
		}
		return s, warnings, badUse("%s; `evalhost help` lists the settings", strings.Join(said, "; "))
	}
	return s, warnings, err
}

// hereSettings reads the environment of this process.
func hereSettings(std stdio) (config.Settings, error) {
	executable, err := os.Executable()
	if err != nil {
		return config.Settings{}, err
	}
	s, warnings, err := readSettings(std.env, executable)
	for _, warning := range warnings {
		fmt.Fprintf(std.err, "evalhost: warning: %s\n", warning)
	}
	return s, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
