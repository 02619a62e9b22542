package limiter

import "fmt"

// grantKey holds how far the events of one key of a layer are paid for. The
// layer's length keeps two layers apart whatever their names and keys hold.
func grantKey(layer, key string) string {
	return fmt.Sprintf("weir:{limit:%d:%s:%s}", len(layer), layer, key)
}
