package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/evalhost/evalhost/langimages"
)

var toolchainsCommand = command{
	name: "toolchains", summary: "list the languages and their compilers",
	help: "An extension that stands in several rows means the default of its family, marked with a star.\n",
	run: func(_ context.Context, args []string, std stdio) error {
		operands, err := arguments(flag.NewFlagSet("toolchains", flag.ContinueOnError), args)
		if err != nil {
			return err
		}
		if len(operands) > 0 {
			return badUse("toolchains takes no operands")
		}
		table := langimages.Default()
		defaults := map[string]bool{}
		for _, family := range table.Families() {
			defaults[family.Default] = true
		}
		w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TOOLCHAIN\tLANGUAGE\tFAMILY\tEXTENSIONS\tIMAGE")
		for _, t := range table.Offered() {
			star := ""
			if defaults[t.ID] {
				star = " *"
			}
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\n", t.ID, star, t.Label, t.Family, strings.Join(t.Extensions, " "), t.Image)
		}
		return w.Flush()
	},
}
