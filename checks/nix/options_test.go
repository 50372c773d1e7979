package nix

import (
	"fmt"
	"strings"
	"testing"
)

// option is one option as the module system describes it.
type option struct {
	Name, Description, Type, Default, Example string
	ReadOnly                                  bool
}

const describeOptions = `configurations: let
  host = configurations.example-vm;
  inherit (host) lib;
  text = value: if value == null then "" else value.text or (lib.generators.toPretty { } value);
  words = d: if builtins.isString d then d else d.text or "";
in map (o: {
  inherit (o) name type readOnly;
  description = words o.description;
  default = text (o.default or null);
  example = text (o.example or null);
}) (builtins.filter (o: o.visible && !o.internal) (lib.optionAttrSetToDocList { inherit (host.options.services) evalhost; }))`

// TestTheOptionReferenceIsWhatTheModuleSays renders the reference from the evaluated options.
func TestTheOptionReferenceIsWhatTheModuleSays(t *testing.T) {
	tools(t)
	var options []option
	evaluate(t, copyTree(t), "nixosConfigurations", describeOptions, &options)
	golden(t, "options.md", reference(options))
	for _, o := range options {
		if o.Description == "" || o.Default == "" || o.Example == "" {
			t.Errorf("%s: description %q, default %q, example %q", o.Name, o.Description, o.Default, o.Example)
		}
	}
}

func reference(options []option) string {
	var page strings.Builder
	page.WriteString("# Options of services.evalhost\n\nRendered from the module; a test keeps it true.\n")
	for _, o := range options {
		fmt.Fprintf(&page, "\n## `%s`\n\n%s\n\n", o.Name, strings.TrimSpace(o.Description))
		fmt.Fprintf(&page, "- Type: %s\n", strings.Join(strings.Fields(o.Type), " "))
		if !o.ReadOnly {
			fmt.Fprintf(&page, "- Default:%s\n- Example:%s\n", code(o.Default), code(o.Example))
		}
	}
	return page.String()
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
