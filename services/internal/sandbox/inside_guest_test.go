//go:build guest

package sandbox

import "github.com/evalhost/evalhost/checks/guest/inside"

func init() { inside.Demand() }
