//go:build guest

package judging

import "github.com/evalhost/evalhost/checks/guest/inside"

func init() { inside.Demand() }
