package inventory

import (
	"context"
	"fmt"
	"hash/crc32"
	"sort"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	slots = 16384
	// maxBuckets bounds the parts of one sale; each is read every refresh.
	maxBuckets = 64
	// maxTags bounds the search for a tag in a master's slots; a master that
	// owns one slot of all is found within it, all but surely.
	maxTags = 1 << 20
)

// slotOf is the cluster slot of a hash tag: CRC16 (XMODEM) mod 16384, as the
// Redis Cluster specification says.
func slotOf(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			high := crc&0x8000 != 0
			crc <<= 1
			if high {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % slots)
}

// spread is the cluster's tag table: n tags, one after the other on each
// master, so that no master has more than one bucket more than another. Tags
// are found, not named: of keys "…:1" to "…:10", four of ten masters get all.
// owners[slot] is the master of a slot, -1 = none.
func spread(owners []int, masters, n int) ([]string, error) {
	tags, next := make([]string, 0, n), make([]int, masters)
	for i := range n {
		master := i % masters
		tag, k := "", next[master]
		for ; k < maxTags && tag == ""; k++ {
			if t := tagNamed(k); owners[slotOf(t)] == master {
				tag = t
			}
		}
		if tag == "" {
			return nil, fmt.Errorf("no hash tag found for master %d: it owns too few slots: %w", master, ErrUnavailable)
		}
		next[master] = k
		tags = append(tags, tag)
	}
	return tags, nil
}

func tagNamed(k int) string { return "w" + strconv.Itoa(k) }

// owners reads which master has which slot. Masters are numbered in the order
// of their first slots, so that every replica makes the same table.
func owners(list []redis.ClusterSlot) (byslot []int, masters int) {
	sort.Slice(list, func(i, j int) bool { return list[i].Start < list[j].Start })
	byslot = make([]int, slots)
	for i := range byslot {
		byslot[i] = -1
	}
	number := map[string]int{}
	for _, s := range list {
		if len(s.Nodes) == 0 {
			continue
		}
		id := s.Nodes[0].ID
		if id == "" {
			id = s.Nodes[0].Addr
		}
		if _, ok := number[id]; !ok {
			number[id] = len(number)
		}
		for slot := s.Start; slot <= s.End && slot < slots; slot++ {
			byslot[slot] = number[id]
		}
	}
	return byslot, len(number)
}

// tagsFor chooses how many buckets a sale gets, and their tags. A sale with
// fewer than ten units a bucket takes fewer buckets; such small sales begin on
// different masters.
func (s *Store) tagsFor(ctx context.Context, sale Sale) ([]string, error) {
	cluster, ok := s.redis.(*redis.ClusterClient)
	if !ok {
		n := max(sale.Buckets, 1)
		tags := make([]string, BucketCount(sale.Total, n))
		for i := range tags {
			tags[i] = tagNamed(i)
		}
		return tags, nil
	}
	list, err := cluster.ClusterSlots(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's slots: %w", mapRead(err))
	}
	byslot, masters := owners(list)
	if masters == 0 {
		return nil, fmt.Errorf("the cluster has no masters with slots: %w", ErrUnavailable)
	}
	n := sale.Buckets
	if n == 0 {
		n = masters
	}
	tags, err := spread(byslot, masters, max(n, masters))
	if err != nil {
		return nil, err
	}
	count := BucketCount(sale.Total, n)
	if count < masters {
		first := int(crc32.ChecksumIEEE([]byte(sale.ID))) % masters
		tags = append(tags[first:masters:masters], tags[:first]...)
	}
	return tags[:count], nil
}

// home is the bucket of an order among n: by the hash of its user, which the
// id carries.
func home(id string, n int) int {
	if n == 1 {
		return 0
	}
	var raw [saleTagBytes + userTagBytes + ownBytes + 1]byte
	if _, err := orderIDText.Decode(raw[:], []byte(id)); err != nil {
		return 0 // not an order id; ValidOrderID refuses it
	}
	h := uint32(raw[5])<<24 | uint32(raw[6])<<16 | uint32(raw[7])<<8 | uint32(raw[8])
	return int(h % uint32(n))
}

// shorten is an order id as its bucket names it: without the tag of the sale.
func shorten(id string) string { return id[saleTagLen:] }

func isOfSale(id, sale string) bool { return strings.HasPrefix(id, saleTag(sale)) }
