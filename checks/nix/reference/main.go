// Command reference renders the page of options (docs/options.md) from a JSON list of what the module says of each of
// them, read from standard input. nixos/reference.nix makes the list. Exit status: 0, or 1 with a sentence when the input
// is no such list or an option says too little of itself.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// option is one option as the module system describes it. Of a read-only one neither default nor example means anything
// to a reader.
type option struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Type        string `json:"type"`
	Default     string `json:"default"`
	Example     string `json:"example"`
	ReadOnly    bool   `json:"readOnly"`
}

func main() {
	page, err := render(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
	if _, err := io.WriteString(os.Stdout, page); err != nil {
		fmt.Fprintln(os.Stderr, "reference: write the page:", err)
		os.Exit(1)
	}
}

// render returns the page, options in the order in which they came.
func render(in io.Reader) (string, error) {
	var options []option
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&options); err != nil {
		return "", fmt.Errorf("read the list of options: %w; nixos/reference.nix makes it", err)
	}
	if len(options) == 0 {
		return "", errors.New("the list of options is empty, so the page would say that there are none")
	}
	var page strings.Builder
	page.WriteString("# Options of services.evalhost\n\n" +
		"What a host can be told. Rendered from the module by `nix build .#option-reference`; a check compares the two, so\n" +
		"change an option where it is declared (`nixos/`) and not here.\n")
	for _, o := range options {
		if o.Name == "" || o.Description == "" || o.Type == "" || o.Default == "" || o.Example == "" {
			return "", fmt.Errorf("option %q: an option needs a type, a description, a default and an example, and this one has %+v", o.Name, o)
		}
		fmt.Fprintf(&page, "\n## `%s`\n\n%s\n\n", o.Name, strings.TrimSpace(o.Description))
		fmt.Fprintf(&page, "- Type: %s\n", strings.Join(strings.Fields(o.Type), " "))
		if !o.ReadOnly {
			fmt.Fprintf(&page, "- Default:%s\n- Example:%s\n", code(o.Default), code(o.Example))
		}
	}
	return page.String(), nil
}

// code writes a value so that Markdown leaves it alone: in a line where it fits, else as a block of the list's item.
func code(text string) string {
	text = strings.TrimSpace(text)
	switch {
	case strings.Contains(text, "\n"):
		return "\n\n  ```nix\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n  ```"
	case strings.Contains(text, "`"):
		return " " + text
	}
	return " `" + text + "`"
}
