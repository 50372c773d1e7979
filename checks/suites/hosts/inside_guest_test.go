//go:build guest

package hosts

import "github.com/evalhost/evalhost/checks/guest/inside"

func init() { inside.Demand() }
