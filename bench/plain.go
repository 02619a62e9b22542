package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"weir/inventory"
)

// plainScript is the second deduction script of source S3, as it stands there: idempotent by a history,
// but without a buyer's limit, holds, states, generations or a fence.
//
// KEYS[1] stock, KEYS[2] deduction history; ARGV[1] quantity, ARGV[2] request key and deduction type.
// Returns 0 deducted before, 1 too few, 2 deducted and none left, 3 deducted and some left.
const plainScript = `
if redis.call('HGET', KEYS[2], ARGV[2]) then return 0 end
local stock, n = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if stock < n then return 1 end
local left = redis.call('DECRBY', KEYS[1], n)
redis.call('HSET', KEYS[2], ARGV[2], n)
if left == 0 then return 2 end
return 3
`

// plainStock sells by that script, one call an order.
type plainStock struct {
	client *redis.Client
	script *redis.Script
	keys   []string
}

func openPlain(ctx context.Context, client *redis.Client) (*plainStock, error) {
	p := &plainStock{client: client, script: redis.NewScript(plainScript), keys: []string{"{hot_1001}_stock", "{hot_1001}_deduction_history"}}
	return p, client.Set(ctx, p.keys[0], benchSale().Total, 0).Err()
}

func (p *plainStock) take(ctx context.Context, n int64) error {
	// The request key is the same order id as the full reserve's: making it costs both ways alike.
	key := inventory.NewOrderID(benchSale().ID, "user-"+strconv.FormatInt(n, 10))
	code, err := p.script.Run(ctx, p.client, p.keys, 1, key+"-order").Int()
	if err == nil && code != 3 {
		return fmt.Errorf("the plain script answered %d instead of a unit", code)
	}
	return err
}

// taken is how many units it took, by both of its keys.
func (p *plainStock) taken(ctx context.Context) (byStock, byHistory int64, err error) {
	left, err := p.client.Get(ctx, p.keys[0]).Int64()
	if err != nil {
		return 0, 0, err
	}
	byHistory, err = p.client.HLen(ctx, p.keys[1]).Result()
	return benchSale().Total - left, byHistory, err
}
