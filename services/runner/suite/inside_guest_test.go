//go:build guest

package suite

import "github.com/evalhost/evalhost/checks/guest/inside"

func init() { inside.Demand() }
