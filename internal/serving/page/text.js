// Functions on text and numbers, independent of the document.

// events yields the data of server-sent events, parsed, up to [DONE].
export async function* events(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read().catch(e => { throw e.name === "AbortError" ? e : new Error("the connection to the server was lost"); });
		if (done) return;
		text += value;
		const lines = text.split("\n\n");
		text = lines.pop();
		for (const line of lines) {
			const data = line.replace(/^data: /, "");
			if (data !== "[DONE]") yield JSON.parse(data);
		}
	}
}

// Joiner decodes tokens to text. A character that is split between tokens appears with the last of them.
export class Joiner {
	#decoder = new TextDecoder();
	push(bytes) {
		return this.#decoder.decode(Uint8Array.from(bytes), { stream: true });
	}
	rest() {
		return this.#decoder.decode();
	}
}

// How strongly a token is colored, from 0 to 1: by how improbable it was, and by how far training moved it.
export const rarity = logp => Math.min(1, Math.max(0, -logp - 0.05) / 6) ** 0.6;
export const shift = moved => (still(moved) ? 0 : Math.min(1, Math.abs(moved) / 4) ** 0.6);
export const still = moved => Math.abs(moved) < 0.05;

export const percent = logp => {
	const p = 100 * Math.exp(logp);
	return (p >= 99.95 ? p.toFixed(p >= 99.995 ? 0 : 2) : p >= 1 ? p.toFixed(1) : p >= 0.01 ? p.toFixed(2) : p.toExponential(0)) + " %";
};

export const signed = x => (x < 0 ? "-" : "+") + Math.abs(x).toFixed(2);

// times says a difference of log-probabilities as a factor.
export const times = moved => {
	if (still(moved)) return "about as likely";
	const f = Math.exp(Math.abs(moved)), n = f >= 1000 ? "over 1000" : f >= 10 ? f.toFixed(0) : f.toFixed(1);
	return n + " × " + (moved > 0 ? "likelier" : "less likely");
};

// visible replaces line breaks, tabs and outer spaces of a token by symbols.
export const visible = text =>
	text === "" ? "(part of a character)" : text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ +| +$/g, blanks => "␣".repeat(blanks.length));
