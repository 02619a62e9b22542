package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/gateway"
	"weir/limiter"
)

// exceptions checks the numbers of single keys.
func (k *checker) exceptions(l LimitsConfig) {
	per := map[string]time.Duration{
		"user": l.User.Per, "device": l.Device.Per, "address": l.Address.Per, "network": l.Network.Per,
		"signature": l.Signature.Per, "challenge": l.Challenge.Per, "item": l.Item.Per, "route": l.Route.Per,
	}
	seen, count := map[[2]string]int{}, map[string]int{}
	for i, x := range l.Except {
		path := fmt.Sprintf("limits.except[%d]", i)
		if _, ok := per[x.Layer]; !ok {
			k.add(path+".layer", "(%s) has no exceptions, right is one of %s", clip(x.Layer), strings.Join(slices.Sorted(maps.Keys(per)), ", "))
			continue
		}
		key, err := gateway.LimitKey(x.Layer, x.Key)
		if err != nil {
			k.add(path+".key", "(%s) %s", clip(x.Key), err)
			continue
		}
		if first, twice := seen[[2]string{x.Layer, key}]; twice {
			k.add(path+".key", "(%s) is that of limits.except[%d] of the same layer", clip(x.Key), first)
		}
		seen[[2]string{x.Layer, key}] = i
		if count[x.Layer]++; count[x.Layer] == limiter.MaxExcept+1 {
			k.add(path, "is one more than the %d that a layer may have", limiter.MaxExcept)
		}
		k.oneOf(path+".mode", x.Mode, "enforce", "off")
		shared := x.Layer == "item" || x.Layer == "route"
		if x.Concurrency < 0 || x.Concurrency > 1_000_000 || x.Concurrency > 0 && !shared {
			k.add(path+".concurrency", "(%d) is out of range, right is 0 to 1000000 for an item or a route, and 0 for others", x.Concurrency)
		}
		if x.Mode == "enforce" && x.Rate == 0 && x.Concurrency == 0 {
			k.add(path+".rate", "is 0 and nothing else is limited; right is more than 0, or mode: off")
		}
		k.bucket(path, x.Rate, per[x.Layer], x.Burst, 1, "enforce")
	}
}
