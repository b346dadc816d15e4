// Bytes of records as people read them: JSON, text or hex.

const HEX_BYTES_MAX = 4_096;

export const DECODERS = [["auto", "Automatic"], ["json", "JSON"], ["text", "Text"], ["hex", "Hex"]];

/** The bytes of a value of the API ({text} or {base64}). */
export function bytesOf(value) {
  if (value === null) return new Uint8Array();
  if (value.text !== null) return new TextEncoder().encode(value.text);
  return Uint8Array.from(atob(value.base64), (sign) => sign.charCodeAt(0));
}

/** One line for a list. */
export function brief(value, length = 120) {
  if (value === null) return "null";
  const whole = value.text ?? hexLine(bytesOf(value).subarray(0, length / 3));
  const line = whole.replace(/\s+/g, " ");
  return line.length > length || value.is_cut ? `${line.slice(0, length)}…` : line;
}

/** The whole value by a decoder, as text. */
export function decoded(value, decoder) {
  if (value === null) return "null";
  const tail = value.is_cut ? `\n… the first ${value.size_bytes > 0 ? "bytes" : ""} of ${value.size_bytes} bytes` : "";
  if (decoder === "hex" || (value.text === null && decoder !== "text")) return hexDump(bytesOf(value)) + tail;
  const text = value.text ?? new TextDecoder().decode(bytesOf(value));
  if (decoder === "text") return text + tail;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return decoder === "json" ? `This is not JSON.\n${text}${tail}` : text + tail;
  }
}

function hexLine(bytes) {
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join(" ");
}

function hexDump(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, HEX_BYTES_MAX); at += 16) {
    const part = bytes.subarray(at, at + 16);
    const signs = Array.from(part, (each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hexLine(part).padEnd(47)}  ${signs}`);
  }
  if (bytes.length > HEX_BYTES_MAX) lines.push(`… ${bytes.length - HEX_BYTES_MAX} more bytes`);
  return lines.join("\n");
}
