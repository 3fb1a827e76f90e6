package io.tandem.kotlin

import io.tandem.GenerateConfig
import io.tandem.LlmModule
import java.io.ByteArrayOutputStream
import java.io.PrintStream
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** The Kotlin program of docs/java.md, which scripts/test_java.sh extracts. */
class DocsTest {
    @Test
    fun theProgramOfTheDocsTellsTheStory() {
        val model = System.getProperty("tandem.model")
        val story = LlmModule(model).use {
            it.generate("Tell me a story about a fox named Leo.", GenerateConfig.greedy()).text()
        }
        val printed = ByteArrayOutputStream()
        val stdout = System.out
        System.setOut(PrintStream(printed, true, "UTF-8"))
        try {
            main(arrayOf(model))
        } finally {
            System.setOut(stdout)
        }
        assertEquals(story, printed.toString("UTF-8").trim())
    }
}
