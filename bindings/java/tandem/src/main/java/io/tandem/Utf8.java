package io.tandem;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Texts cross the border as UTF-8. Half a surrogate pair, which has no UTF-8, becomes U+FFFD. */
final class Utf8 {
    private static final byte[] REPLACEMENT = {(byte) 0xEF, (byte) 0xBF, (byte) 0xBD};

    private Utf8() {}

    static byte[] encode(String text) {
        CharsetEncoder encoder =
                StandardCharsets.UTF_8
                        .newEncoder()
                        .onMalformedInput(CodingErrorAction.REPLACE)
                        .onUnmappableCharacter(CodingErrorAction.REPLACE)
                        .replaceWith(REPLACEMENT);
        try {
            ByteBuffer buffer = encoder.encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return bytes;
        } catch (CharacterCodingException e) {
            throw new AssertionError(e); // Replaced, not reported.
        }
    }

    static byte[][] encodeAll(List<String> texts) {
        byte[][] all = new byte[texts.size()][];
        for (int i = 0; i < all.length; ++i) {
            all[i] = encode(texts.get(i));
        }
        return all;
    }

    /** Role, content, fields, role, … */
    static byte[][] encodeMessages(List<Message> messages) {
        List<String> parts = new ArrayList<>();
        for (Message message : messages) {
            parts.add(message.role());
            parts.add(message.content());
            parts.add(message.fields());
        }
        return encodeAll(parts);
    }

    static String decode(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
