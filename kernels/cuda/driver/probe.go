//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"context"
	"runtime"

	"gorgonia.org/cu"
)

// Probe looks for the driver and its cards. An error concerns all of them; that of a single card is in its Trouble. The
// free memory of a card can only be queried in a context, so Probe makes one for a moment.
func Probe(ctx context.Context) (Driver, error) {
	type answer struct {
		driver Driver
		err    error
	}
	done := make(chan answer, 1) // buffered, so that the goroutine can end after ctx is done
	go func() {
		driver, err := probe()
		done <- answer{driver, err}
	}()
	select {
	case a := <-done:
		return a.driver, a.err
	case <-ctx.Done():
		return Driver{}, ctx.Err()
	}
}

func probe() (Driver, error) {
	driver, err := library()
	if err != nil {
		return driver, err
	}
	count, err := cu.NumDevices()
	if err == nil && count == 0 {
		return driver, startError(driver.Library, C.CUDA_ERROR_NO_DEVICE)
	}
	if err != nil {
		return driver, startError(driver.Library, codeOf(err))
	}
	for i := range count {
		card, device, err := queryCard(i)
		if err == nil && card.Trouble == nil {
			card.Free, err = freeMemory(card, device)
		}
		if err != nil {
			card.Trouble = err
		}
		driver.Cards = append(driver.Cards, card)
	}
	return driver, nil
}

// queryCard queries the properties of a card that need no context.
func queryCard(index int) (Card, cu.Device, error) {
	card := Card{Index: index}
	device, err := cu.GetDevice(index)
	if err == nil {
		card.Name, err = device.Name()
	}
	if err == nil {
		card.Total, err = device.TotalMem()
	}
	var mode int
	for _, ask := range []struct {
		attribute cu.DeviceAttribute
		into      *int
	}{
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &card.Capability.Major},
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &card.Capability.Minor},
		{C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &card.Processors},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &card.Shared},
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode},
	} {
		if err == nil {
			*ask.into, err = device.Attribute(ask.attribute)
		}
	}
	if err != nil {
		return card, device, cardError(card, "asking what it is", err)
	}
	switch {
	case card.Capability.Before(LeastCapability):
		card.Trouble = unusable(CardOld, "%s has compute capability %s, the kernels need %s (A100, RTX 30 or newer): "+
			"choose another card", card, card.Capability, LeastCapability)
	case mode == C.CU_COMPUTEMODE_PROHIBITED:
		card.Trouble = unusable(Prohibited, "%s is closed to programs (compute mode Prohibited): "+
			"type nvidia-smi -i N -c DEFAULT as root, N being its number there", card)
	}
	return card, device, nil
}

// freeMemory makes a context for a moment, to query the free memory.
func freeMemory(card Card, device cu.Device) (bytes int64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context, err := device.RetainPrimaryCtx()
	if err != nil {
		return 0, contextError(card, err)
	}
	defer device.ReleasePrimaryCtx()
	if err = enterContext(context, openings.Add(1)); err == nil {
		bytes, _, err = cu.MemInfo()
		forgetContext() // the thread may live longer than the context
	}
	if err != nil {
		return 0, cardError(card, "asking for its free memory", err)
	}
	return bytes, nil
}

// contextError says why a context could not be made on a card.
func contextError(card Card, err error) error {
	switch codeOf(err) {
	case C.CUDA_ERROR_DEVICE_UNAVAILABLE:
		return unusable(Busy, "%s is busy: another process has it for itself (see nvidia-smi); end that, choose another card", card)
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return unusable(NoMemory, "%s has no memory left for a context (see nvidia-smi): end what else runs on it, choose another card", card)
	}
	return cardError(card, "making a context", err)
}
