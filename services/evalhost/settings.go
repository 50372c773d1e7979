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

// factsOf is what a program at this path knows.
func factsOf(executable string) (facts config.Facts) {
	if beside := filepath.Join(filepath.Dir(executable), shimName); isFile(beside) {
		facts.ShimBeside = beside
	}
	return facts
}

// readSettings reads the environment of this command; executable is the path of this program. What is accepted and
// probably not meant comes back as warnings.
func readSettings(env []string, executable string) (config.Settings, []config.Warning, error) {
	s, warnings, err := config.Read(config.Command, env, factsOf(executable))
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

// maxSettingsRead bounds a file of settings, in bytes: all settings there are take a hundredth of it.
const maxSettingsRead = 1 << 20

// runnerSettings reads a file of settings as the daemon of this directory would read it, started by its unit.
func runnerSettings(path string, std stdio) (config.Settings, error) {
	text, err := readRegular("the file of the Runner's settings", path, maxSettingsRead)
	if err != nil {
		return config.Settings{}, err
	}
	entries, err := config.ParseEnvironmentFile(string(text))
	if err != nil {
		return config.Settings{}, badUse("the Runner's settings in %s: %v", path, err)
	}
	executable, err := os.Executable()
	if err != nil {
		return config.Settings{}, err
	}
	s, warnings, err := config.Read(config.Daemon, entries, factsOf(executable))
	for _, warning := range warnings {
		fmt.Fprintf(std.err, "evalhost: warning: %s: %s\n", path, warning)
	}
	if err != nil {
		return s, badUse("%s: the Runner would refuse its settings: %s", path, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return s, nil
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
